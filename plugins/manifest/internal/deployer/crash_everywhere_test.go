package deployer_test

import (
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestCrashAtEachStep lets each step of a job go wrong in turn, in each way that it can, and checks what the target
// and the host have at the end against a job that nothing has happened to. On the way every object of the item is
// known to the host.
// Rule (architecture.md#what-always-holds): 6. The inventory has an object until it is gone, whichever step goes wrong.
func TestCrashAtEachStep(t *testing.T) {
	t.Parallel()
	for _, s := range crashScenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			undisturbed, steps := live(t, s, 0, plugintest.Fault{})
			count := func(is func(step string) bool) (n int) {
				for _, step := range steps {
					if is(step) {
						n++
					}
				}
				return n
			}
			reads := count(plugintest.IsRead)
			results := count(func(step string) bool { return step == plugintest.StepResult })
			changes := len(steps) - reads - results
			for f, count := range map[plugintest.Fault]int{
				plugintest.Killed: changes + results, plugintest.Failed: changes, plugintest.AnswerLost: changes,
				plugintest.ReadFailed: reads,
			} {
				for n := 1; n <= count; n++ {
					t.Run(fmt.Sprintf("%s at step %d of %d", f.Name, n, count), func(t *testing.T) {
						t.Parallel()
						disturbed, _ := live(t, s, n, f)
						if diff := cmp.Diff(undisturbed, disturbed, cmpopts.EquateEmpty()); diff != "" {
							t.Errorf("%s, but the end is another one: -undisturbed +disturbed:\n%s", s.reason, diff)
						}
					})
				}
			}
		})
	}
}

// live carries a scenario out, with a fault at the nth of the steps that it strikes at, or none for 0. It returns
// what came of it, and the steps.
func live(t *testing.T, s scenario, n int, f plugintest.Fault) (end state, steps []string) {
	t.Helper()
	first, operation := s.before, plugintest.Reconcile
	if first == nil {
		first = s.job
	}
	if s.do != nil {
		operation = s.do
	}
	l := newLife(t, first)
	if s.before != nil {
		l.MustSucceed(l.item)
	}
	l.SetConfig(l.item, s.job(l.world))
	l.forget()
	if n > 0 {
		if last, _ := l.Disturb(operation, l.item, n, f); last.Succeeded == nil {
			l.checkNoOrphans()
		}
	}
	l.carryOut(operation)
	end, steps = l.state(), l.Requests.Steps()

	l.Requests.Take()
	l.carryOut(operation)
	if writes := l.Requests.Writes(); len(writes) > 0 {
		t.Errorf("another job finds something to do: %v", writes)
	}
	return end, steps
}

// life is that of a deploy item, with what cannot be seen at its end any more.
type life struct {
	*world

	item *landscaper.DeployItem

	mu sync.Mutex
	// created says how often objects were created, by the paths of their resources.
	created map[string]int
}

func newLife(t *testing.T, config func(*world) object) *life {
	t.Helper()
	l := &life{}
	l.world = newWorldBy(t, l.note)
	l.item = l.world.item(config(l.world))
	l.forget()
	return l
}

// forget forgets what was done until now.
func (l *life) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created = map[string]int{}
	l.Requests.Take()
}

// note notes what the target carries out.
func (l *life) note(next http.RoundTripper) http.RoundTripper {
	return plugintest.RoundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil || r.URL.Query().Has("dryRun") || response.StatusCode >= http.StatusMultipleChoices {
			return response, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if response.StatusCode == http.StatusCreated {
			resource := r.URL.Path
			if r.Method != http.MethodPost { // server-side apply
				resource = path.Dir(resource)
			}
			l.created[resource]++
		}
		return response, nil
	})
}

// carryOut carries a job out to its success.
func (l *life) carryOut(operation plugintest.Operation) {
	l.Helper()
	if result := l.UntilDone(operation, l.item); result.Succeeded == nil {
		l.Fatalf("expected no failure without a reason, but found: %s", result)
	}
}

// checkNoOrphans checks that the host knows of each object that is labelled for the item.
func (l *life) checkNoOrphans() {
	l.Helper()
	managed := l.managed(l.item)
	for _, o := range l.labelled() {
		if !slices.Contains(managed, o.GetKind()+" "+o.GetName()) {
			l.Errorf("%s %s is an orphan: the host has saved only %v", o.GetKind(), o.GetName(), managed)
		}
	}
}
