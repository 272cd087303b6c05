package helm3_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/release"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3"
	"github.com/pergola-deploy/pergola/test/charts"
)

// TestCrash ends the process, as far as the cluster can tell, at each write to Helm's storage: right before it, or right after, without an
// answer. The next request must end with one revision that is deployed and with its objects, or with nothing if it is an uninstall.
func TestCrash(t *testing.T) {
	t.Parallel()
	few := charts.File("values.yaml", `
greeting: hello
jobs: {enabled: false}
hooks:
  prepare: {events: "pre-install,pre-upgrade,pre-delete", weight: 0, deletePolicy: before-hook-creation}
  refresh: {events: "post-install,post-upgrade,post-rollback,post-delete", weight: 0, deletePolicy: before-hook-creation}
`)
	hooks := charts.Pack("hooks", few, charts.File("templates/old.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n"))
	next := charts.Pack("hooks", few, charts.Version("2.0.0"), charts.File("templates/new.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n"))
	failing := charts.Pack("failinghook", charts.Name("hooks"))
	for name, c := range map[string]struct {
		reason string
		// before are the requests that succeed before the one that crashes.
		before []func(*world) *helm.Request
		crash  func(*world) *helm.Request
		// writes are how many there are, at least.
		writes int
	}{
		"install": {
			reason: "a first revision that is pending, or whose hooks are run",
			crash:  func(w *world) *helm.Request { return w.request(hooks, nil) }, writes: 4,
		},
		"upgrade": {
			reason: "there is a time without a deployed revision",
			before: []func(*world) *helm.Request{func(w *world) *helm.Request { return w.request(hooks, nil) }},
			crash:  func(w *world) *helm.Request { return w.request(next, nil) }, writes: 5,
		},
		"upgrade that removes old revisions": {
			reason: "the history is cut before the new revision is stored",
			before: []func(*world) *helm.Request{
				func(w *world) *helm.Request { return w.request(hooks, nil) }, func(w *world) *helm.Request { return w.request(hooks, nil) },
			},
			crash: func(w *world) *helm.Request {
				r := w.request(next, nil)
				r.MaxHistory = 2
				return r
			}, writes: 6,
		},
		"install after one that has failed": {
			reason: "no revision is deployed at any time before the end",
			before: []func(*world) *helm.Request{func(w *world) *helm.Request { return w.request(failing, nil) }},
			crash:  func(w *world) *helm.Request { return w.request(next, nil) }, writes: 4,
		},
		"atomic upgrade that fails": {
			reason: "the rollback has a revision of its own",
			before: []func(*world) *helm.Request{func(w *world) *helm.Request { return w.request(hooks, nil) }},
			crash: func(w *world) *helm.Request {
				r := w.request(failing, nil)
				r.Options.Atomic = true
				return r
			}, writes: 6,
		},
		"atomic install that fails": {
			reason: "what was installed is uninstalled",
			crash: func(w *world) *helm.Request {
				r := w.request(failing, nil)
				r.Options.Atomic = true
				return r
			}, writes: 3,
		},
		"uninstall": {
			reason: "revisions are removed one by one",
			before: []func(*world) *helm.Request{
				func(w *world) *helm.Request { return w.request(hooks, nil) }, func(w *world) *helm.Request { return w.request(hooks, nil) },
			},
			crash: func(w *world) *helm.Request {
				r := w.request(hooks, nil)
				r.Action = helm.Uninstall
				return r
			}, writes: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, performed := range []bool{false, true} {
				reached := 0
				for n := 1; ; n++ {
					w := newWorld(t)
					for _, before := range c.before {
						if _, err := w.run(before(w)); err != nil && asError(t, err).Kind != helm.Rejected {
							t.Fatal(err)
						}
					}
					if !w.crashAt(n, performed, c.crash(w)) {
						break
					}
					reached = n
					w.mustGoOn(fmt.Sprintf("write %d, performed: %t", n, performed), next)
				}
				if reached < c.writes {
					t.Errorf("%s: expected %d writes at least, but found %d", c.reason, c.writes, reached)
				}
			}
		})
	}
}

var errCrash = errors.New("the process was killed")

// crashAt runs a request in a process that ends at the n-th write of revisions, and tells whether that was reached.
func (w *world) crashAt(n int, performed bool, r *helm.Request) bool {
	w.Helper()
	var mu sync.Mutex
	writes, dead := 0, false
	log := &requestLog{}
	isWrite := func(r *http.Request) bool {
		return r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/secrets")
	}
	log.intercept(func(r *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if isWrite(r) {
			writes++
			dead = dead || !performed && writes == n
		}
		if dead {
			return errCrash
		}
		return nil
	}, func(r *http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		dead = dead || performed && isWrite(r) && writes == n
		if dead {
			return errCrash
		}
		return nil
	})
	client := helm3.New(helm3.WrapTransport(log.wrap))
	_, err := client.Run(w.Context(), r, w.audience)
	mu.Lock()
	defer mu.Unlock()
	if dead && err == nil {
		w.Errorf("write %d: a request that does not know whether it was done must fail", n)
	}
	return dead
}

// mustGoOn deploys a chart as the deployer does after a crash, and then uninstalls it.
func (w *world) mustGoOn(when string, chart []byte) {
	w.Helper()
	crashed := w.history()
	interrupted := func() (found []int) {
		for _, rel := range w.releases() {
			if rel.Info.Status.IsPending() || rel.Info.Status == release.StatusUninstalling {
				found = append(found, rel.Version)
			}
		}
		return found
	}
	r := w.request(chart, nil)
	r.Interrupted = interrupted()
	if _, err := w.run(r); err != nil {
		w.Errorf("%s, revisions %v: %v", when, crashed, err)
		return
	}
	deployed, others := 0, 0
	for _, rel := range w.releases() {
		switch rel.Info.Status {
		case release.StatusDeployed:
			deployed++
		case release.StatusFailed, release.StatusSuperseded:
		default:
			others++
		}
	}
	if deployed != 1 || others > 0 {
		w.Errorf("%s, revisions %v: expected one that is deployed, but found %v", when, crashed, w.history())
	}
	if w.get(configMaps, "new") == nil || w.get(configMaps, "shop-hooks") == nil {
		w.Errorf("%s, revisions %v: expected the objects of the chart", when, crashed)
	}
	if w.get(configMaps, "old") != nil {
		w.Errorf("%s, revisions %v: what only an earlier chart had is left", when, crashed)
	}
	r.Action = helm.Uninstall
	if _, err := w.run(r); err != nil || len(w.history()) > 0 || w.get(configMaps, "new") != nil {
		w.Errorf("%s, revisions %v: expected that nothing is left, but found the error %v and %v", when, crashed, err, w.history())
	}
}

// TestUninstallAfterCrash uninstalls without deploying again, whatever is left of an upgrade.
func TestUninstallAfterCrash(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		w := newWorld(t)
		w.mustRun(w.request(plain, nil))
		if !w.crashAt(n, true, w.request(plain, nil)) {
			break
		}
		r := w.request(plain, nil)
		r.Action = helm.Uninstall
		for _, rel := range w.releases() {
			if rel.Info.Status.IsPending() {
				w.mustFail(r, helm.Pending, "in progress")
				r.Interrupted = append(r.Interrupted, rel.Version)
			}
		}
		w.mustRun(r)
		w.mustHave()
	}
}

// TestLastWriteFails has the API server fail when Helm notes that a revision is deployed, which Helm only logs.
func TestLastWriteFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	failures := 2
	w.requests.intercept(func(r *http.Request) error {
		if r.Method == http.MethodPut && failures > 0 {
			failures--
			return errors.New("connection reset")
		}
		return nil
	}, nil)
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

// TestPending leaves a revision alone that somebody else may be working on.
func TestPending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if !w.crashAt(2, false, w.request(plain, nil)) {
		t.Fatal("expected a second write")
	}
	w.mustHave("1:pending-install")
	w.mustFail(w.request(plain, nil), helm.Pending, "revision 1")
	w.mustHave("1:pending-install")
}

// TestFinishedMeanwhile has the operation that was taken for interrupted come to its end at the last moment.
func TestFinishedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if !w.crashAt(2, false, w.request(plain, nil)) {
		t.Fatal("expected a second write")
	}
	w.requests.intercept(func(r *http.Request) error {
		if r.Method == http.MethodPut && w.history()[0] == "1:pending-install" {
			w.store(func(all []*release.Release) *release.Release {
				all[0].Info.Status = release.StatusDeployed
				return all[0]
			})
		}
		return nil
	}, nil)
	r := w.request(plain, nil)
	r.Interrupted = []int{1}
	w.mustFail(r, helm.Pending, "revision 1")
	w.mustHave("1:deployed")
}

// TestSeveralDeployed repairs what several operations at once have left.
func TestSeveralDeployed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		w.mustRun(w.request(plain, nil))
	}
	w.store(func(all []*release.Release) *release.Release {
		all[0].Info.Status = release.StatusDeployed
		return all[0]
	})
	w.mustHave("1:deployed", "2:superseded", "3:deployed")
	w.mustRun(w.request(plain, nil))
	w.mustHave("1:superseded", "2:superseded", "3:superseded", "4:deployed")
}
