package apply_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

const upstreamLabel = "manifest.deployer.landscaper.gardener.cloud/deployitem"

// world is what one test plays in: a deploy item with its inventory, and a client of its own.
type world struct {
	*plugintest.World

	by        owner.Owner
	client    *target.Client
	inventory map[object.Key]managedresource.ManagedResourceStatus
	// strategy is that of manifests without one.
	strategy managedresource.UpdateStrategy
	// awaits is AwaitServers of the plans.
	awaits bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: plugintest.New(t)}
	w.client = w.Client(plugintest.Config())
	w.beItem("item")
	return w
}

// in returns the world of a subtest: the same namespace and deploy item, but a client and an inventory of its own.
func (w *world) in(t *testing.T) *world {
	t.Helper()
	sub := &world{World: w.In(t)}
	sub.Requests = &plugintest.Requests{}
	sub.client = sub.Client(plugintest.Config())
	sub.beItem(w.by.Name)
	return sub
}

// each runs a test with each strategy but some, in worlds of their own.
func each(t *testing.T, test func(w *world), but ...managedresource.UpdateStrategy) {
	t.Helper()
	t.Parallel()
	for _, s := range managedresource.UpdateStrategies() {
		if slices.Contains(but, s) {
			continue
		}
		t.Run(strings.ToLower(string(s)), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.strategy = s
			test(w)
		})
	}
}

// beItem changes to another deploy item, which has applied nothing yet.
func (w *world) beItem(name string) {
	w.by = owner.Owner{Namespace: w.Namespace, Name: name, UpstreamLabel: upstreamLabel}
	w.inventory = map[object.Key]managedresource.ManagedResourceStatus{}
}

// forgetHashes forgets what was applied, as after a crash.
func (w *world) forgetHashes() {
	for key, e := range w.inventory {
		e.Applied = ""
		w.inventory[key] = e
	}
}

// plan returns the plan of the manifests, which have paths then.
func (w *world) plan(manifests ...desired.Manifest) (*apply.Plan, error) {
	for i := range manifests {
		m := &manifests[i]
		m.Settings = field.NewPath("manifests").Index(i)
		m.Path = m.Settings.Child("manifest")
		if m.Strategy == "" {
			m.Strategy = w.strategy
		}
	}
	plan, err := apply.NewPlan(w.Context(), w.client, manifests, w.by, time.Now())
	if plan != nil {
		plan.AwaitServers = w.awaits
	}
	return plan, err
}

func (w *world) mustPlan(manifests ...desired.Manifest) *apply.Plan {
	w.Helper()
	plan, err := w.plan(manifests...)
	if err != nil {
		w.Fatal(err)
	}
	return plan
}

// run does what a deployer does with package apply in one call, but for the patches.
func (w *world) run(manifests ...desired.Manifest) (apply.Result, error) {
	w.Helper()
	plan := w.mustPlan(manifests...)
	before := maps.Clone(w.inventory)
	for _, item := range plan.Items() {
		e := item.Entry()
		e.Resource.UID, e.Shared = before[item.Key].Resource.UID, before[item.Key].Shared
		if known := before[item.Key].Applied; !item.Stale(known) {
			e.Applied = known
		}
		w.inventory[item.Key] = e
	}
	result, err := apply.Run(w.Context(), w.client, plan, recordedIn(before))
	w.note(result.Applied)
	for _, s := range result.Skipped {
		delete(w.inventory, s.Key)
	}
	return result, err
}

func recordedIn(inventory map[object.Key]managedresource.ManagedResourceStatus) apply.Recorded {
	return func(key object.Key) (e managedresource.ManagedResourceStatus, ok bool) {
		e, ok = inventory[key]
		return e, ok
	}
}

// runNew applies manifests of a first job, with a context of its own.
func (w *world) runNew(ctx context.Context, manifests ...desired.Manifest) (apply.Result, error) {
	return apply.Run(ctx, w.client, w.mustPlan(manifests...), recordedIn(nil))
}

func (w *world) note(applied []apply.Applied) {
	for _, a := range applied {
		e := w.inventory[a.Key]
		e.Resource.UID, e.Applied, e.Shared = a.Live.GetUID(), a.LastAppliedHash, a.Shared
		w.inventory[a.Key] = e
	}
}

// mustRun applies the manifests and makes the patches.
func (w *world) mustRun(manifests ...desired.Manifest) apply.Result {
	w.Helper()
	result, err := w.run(manifests...)
	if err != nil || len(result.Waiting) > 0 {
		w.Fatalf("expected success, but found the error %v, waiting for %v", err, result.Waiting)
	}
	done, err := apply.Patch(w.Context(), w.client, result.Applied)
	if err != nil {
		w.Fatalf("patch: %v", err)
	}
	w.note(done)
	return result
}

// mustSettle applies manifests without a write, and without finding drift.
func (w *world) mustSettle(manifests ...desired.Manifest) apply.Result {
	w.Helper()
	w.Requests.Take()
	result := w.mustRun(manifests...)
	if writes := w.Requests.Writes(); len(writes) > 0 || len(result.Drift) > 0 {
		w.Errorf("expected nothing to be done, but found the drift %+v, and %v", result.Drift, writes)
	}
	return result
}

// eventually applies manifests until nothing is waited for.
func (w *world) eventually(manifests ...desired.Manifest) {
	w.Helper()
	w.Eventually("everything to be applied", func() bool {
		result, err := w.run(manifests...)
		return err == nil && len(result.Waiting) == 0 && len(result.Applied) == len(manifests)
	})
}

// mustWait applies manifests, of which one waits.
func (w *world) mustWait(part string, manifests ...desired.Manifest) {
	w.Helper()
	result, err := w.run(manifests...)
	if err != nil || len(result.Waiting) != 1 || !strings.Contains(result.Waiting[0], part) {
		w.Fatalf("expected to wait for %q, but found %v and the error %v", part, result.Waiting, err)
	}
}

func (w *world) diff(manifests ...desired.Manifest) []sdk.Change {
	w.Helper()
	changes, _, err := apply.Diff(w.Context(), w.client, w.mustPlan(manifests...), recordedIn(w.inventory))
	if err != nil {
		w.Fatalf("diff: %v", err)
	}
	return changes
}

// mustForesee expects one change, with the action and a part of its note.
func (w *world) mustForesee(action sdk.Action, note string, manifests ...desired.Manifest) sdk.Change {
	w.Helper()
	changes := w.diff(manifests...)
	if len(changes) != 1 || changes[0].Action != action || !strings.Contains(changes[0].Note, note) {
		w.Fatalf("expected %s with the note %q to be foreseen, but found %+v", action, note, changes)
	}
	return changes[0]
}

func (w *world) mustForeseeNothing(manifests ...desired.Manifest) {
	w.Helper()
	if changes := w.diff(manifests...); len(changes) > 0 {
		w.Errorf("expected no change, but found %+v: %s, %s", changes, changes[0].Before, changes[0].After)
	}
}

// mustFail checks an error: its reason, whether it is the user's to mend, and parts of its text.
func (w *world) mustFail(err error, reason string, configuration bool, parts ...string) {
	w.Helper()
	if err == nil {
		w.Fatal("expected an error")
	}
	if known := asError(err); known == nil || known.Reason != reason {
		w.Errorf("expected the reason %s, but found %+v in %v", reason, known, err)
	}
	if (len(sdk.Codes(err)) > 0) != configuration {
		w.Errorf("expected a configuration problem: %t, but found the codes %v of %v", configuration, sdk.Codes(err), err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			w.Errorf("expected an error with %q, but found: %v", part, err)
		}
	}
}

func asError(err error) *sdk.Error {
	var known *sdk.Error
	if errors.As(err, &known) {
		return known
	}
	return nil
}

// mustHave checks the data of a ConfigMap.
func (w *world) mustHave(name string, want fields) {
	w.Helper()
	if diff := cmp.Diff(want, object.Child(w.MustGet(configMaps, name).Object, "data")); diff != "" {
		w.Errorf("data of %s: -want +got:\n%s", name, diff)
	}
}

// mustSelect checks the selector of the Deployment "web".
func (w *world) mustSelect(want fields) {
	w.Helper()
	found := object.Child(w.MustGet(deployments, "web").Object, "spec", "selector", "matchLabels")
	if diff := cmp.Diff(want, found); diff != "" {
		w.Errorf("selector: -want +got:\n%s", diff)
	}
}

// mustRequest checks the requests since the last check.
func (w *world) mustRequest(want ...string) {
	w.Helper()
	if got := w.Requests.Verbs(); !slices.Equal(got, want) {
		w.Errorf("expected the requests %v, but found %v", want, got)
	}
}

// mustBeDry checks that the requests since the last check change nothing, apart from those that are refused.
func (w *world) mustBeDry(refused ...string) {
	w.Helper()
	for _, request := range w.Requests.Verbs() {
		if request != "GET" && !strings.HasPrefix(request, "dry ") && !slices.Contains(refused, request) {
			w.Errorf("expected no write, but found %s", request)
		}
	}
}

func isWrite(r *http.Request) bool {
	return r.Method != http.MethodGet && r.URL.Query().Get("dryRun") == ""
}

// beforeOne lets something happen before the first of certain requests.
func (w *world) beforeOne(is func(*http.Request) bool, do func()) {
	once := true
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if is(r) && once {
			once = false
			do()
		}
		return nil, nil
	})
}

// forbid has requests answered as if they were not permitted.
func (w *world) forbid(message string, is func(*http.Request) bool) {
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if is(r) {
			return plugintest.Forbidden(r, message), nil
		}
		return nil, nil
	})
}
