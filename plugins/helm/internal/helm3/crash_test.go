package helm3_test

import (
	"errors"
	"net/http"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// crashed leaves the first revision in progress, as a process does that ends before its second write of it.
func crashed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.Requests.Strike(2, plugintest.Fault{Path: "/secrets", Killed: true})
	if _, err := w.run(w.request(plain, nil)); err == nil || !w.Requests.Revive() {
		t.Fatalf("expected a second write that fails, but found %v", err)
	}
	w.mustHave("1:pending-install")
	return w
}

// mark writes the first revision with another status behind everybody's back.
func (w *world) mark(status release.Status) {
	w.Helper()
	client, err := corev1client.NewForConfig(plugintest.Config())
	if err != nil {
		w.Fatal(err)
	}
	first := w.releases()[0]
	first.Info.Status = status
	if err := storage.Init(driver.NewSecrets(client.Secrets(w.Namespace))).Update(first); err != nil {
		w.Fatal(err)
	}
}

// markMeanwhile marks the first revision right before the code under test writes it.
func (w *world) markMeanwhile(status release.Status) {
	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodPut && w.history()[0] == "1:pending-install" {
			w.mark(status)
		}
		return nil
	})
}

// TestUninstalledRevision: a new installation goes on with the history that another client has kept.
func TestUninstalledRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(plain, nil))
	w.mark(release.StatusUninstalled)
	w.mustRun(w.request(plain, nil))
	w.mustHave("1:superseded", "2:deployed")
}

// TestLastWriteFails has the API server fail when Helm notes that a revision is deployed, which Helm only logs.
// Rule (helm.md#recovery): A lost upgrade to `deployed` is not reported as a success.
func TestLastWriteFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failures := 2
	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodPut && failures > 0 {
			failures--
			return errors.New("connection reset")
		}
		return nil
	})
	w.mustRun(w.request(plain, nil))
	w.mustHave("1:deployed")
}

// TestInterruptedIsFinished has the operation that was taken for interrupted come to its end.
func TestInterruptedIsFinished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(w.request(plain, nil))
	r := w.request(plain, nil)
	r.Interrupted = []int{1, 7}
	w.mustRun(r)
	w.mustHave("1:superseded", "2:deployed")
}

// TestPending leaves a revision alone that somebody else may be working on, until that counts as interrupted.
func TestPending(t *testing.T) {
	t.Parallel()
	w := crashed(t)
	for _, action := range []helm.Action{helm.Install, helm.Uninstall} {
		r := w.request(plain, nil)
		r.Action = action
		w.mustFail(r, helm.Pending, "revision 1")
	}
	w.mustHave("1:pending-install")
	r := w.request(plain, nil)
	r.Interrupted = []int{1}
	w.mustRun(r)
	w.mustHave("1:failed", "2:deployed")
	if got := w.releases()[0].Info.Description; got != "the operation has not come to its end" {
		t.Errorf("expected a description that is true for each cause, but found %q", got)
	}
}

// TestFinishedMeanwhile has the operation that was taken for interrupted come to its end at the last moment.
func TestFinishedMeanwhile(t *testing.T) {
	t.Parallel()
	w := crashed(t)
	w.markMeanwhile(release.StatusDeployed)
	r := w.request(plain, nil)
	r.Interrupted = []int{1}
	w.mustFail(r, helm.Pending, "revision 1")
	w.mustHave("1:deployed")
}

// TestWrittenMeanwhile leaves a revision as it is that somebody else has written, who took the operation for
// interrupted.
// Rule (helm.md#recovery): The revision of an interrupted operation is marked only if no client has written it
// meanwhile.
func TestWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.markMeanwhile(release.StatusFailed)
	w.mustFail(w.request(plain, nil), helm.ClusterFailed, "the object has been modified")
	w.mustHave("1:failed")
}
