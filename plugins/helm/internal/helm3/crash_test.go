package helm3_test

import (
	"errors"
	"net/http"
	"testing"

	"helm.sh/helm/v3/pkg/release"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// crashAt runs a request in a process that ends at the n-th write of revisions, before it is performed or after,
// and tells whether that was reached.
func (w *world) crashAt(n int, performed bool, r *helm.Request) bool {
	w.Helper()
	w.Requests.Strike(n, plugintest.Fault{Path: "/secrets", Killed: true, Done: performed})
	_, err := w.run(r)
	struck := w.Requests.Revive()
	if struck && err == nil {
		w.Errorf("write %d: a request that does not know whether it was done must fail", n)
	}
	return struck
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
	w := newWorld(t)
	if !w.crashAt(2, false, w.request(plain, nil)) {
		t.Fatal("expected a second write")
	}
	w.mustHave("1:pending-install")
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
	w := newWorld(t)
	if !w.crashAt(2, false, w.request(plain, nil)) {
		t.Fatal("expected a second write")
	}
	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodPut && w.history()[0] == "1:pending-install" {
			w.store(func(all []*release.Release) *release.Release {
				all[0].Info.Status = release.StatusDeployed
				return all[0]
			})
		}
		return nil
	})
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
	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodPut && w.history()[0] == "1:pending-install" {
			w.store(func(all []*release.Release) *release.Release {
				all[0].Info.Status = release.StatusFailed
				return all[0]
			})
		}
		return nil
	})
	w.mustFail(w.request(plain, nil), helm.ClusterFailed, "the object has been modified")
	w.mustHave("1:failed")
}
