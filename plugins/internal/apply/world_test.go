package apply_test

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

var (
	configMaps, secrets, services = plugintest.ConfigMaps, plugintest.Secrets, plugintest.Services
	deployments, jobs             = plugintest.Deployments, plugintest.Jobs
	namespaces                    = plugintest.Namespaces
)

const upstreamLabel = "manifest.deployer.landscaper.gardener.cloud/deployitem"

// world is what one test plays in: a deploy item with its inventory, and a client of its own.
type world struct {
	*plugintest.World

	by        owner.Owner
	client    *target.Client
	inventory map[object.Key]managedresource.ManagedResourceStatus
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

// beItem changes to another deploy item, which has applied nothing yet.
func (w *world) beItem(name string) {
	w.by = owner.Owner{Namespace: w.Namespace, Name: name, UpstreamLabel: upstreamLabel}
	w.inventory = map[object.Key]managedresource.ManagedResourceStatus{}
}

// plan returns the plan of the manifests, which have paths then.
func (w *world) plan(manifests ...desired.Manifest) (*apply.Plan, error) {
	for i := range manifests {
		manifests[i].Settings = field.NewPath("manifests").Index(i)
		manifests[i].Path = manifests[i].Settings.Child("manifest")
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
	result, err := apply.Run(w.Context(), w.client, plan, func(k object.Key) (managedresource.ManagedResourceStatus, bool) {
		e, ok := before[k]
		return e, ok
	})
	w.note(result.Applied)
	for _, s := range result.Skipped {
		delete(w.inventory, s.Key)
	}
	return result, err
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

func (w *world) diff(manifests ...desired.Manifest) []sdk.Change {
	w.Helper()
	changes, _, err := apply.Diff(w.Context(), w.client, w.mustPlan(manifests...), w.recorded)
	if err != nil {
		w.Fatalf("diff: %v", err)
	}
	return changes
}

// mustFail checks an error: its reason, whether it is the user's to mend, and parts of its text.
func (w *world) mustFail(err error, reason string, configuration bool, parts ...string) {
	w.Helper()
	if err == nil {
		w.Fatal("expected an error")
	}
	known := asError(err)
	if known == nil || known.Reason != reason {
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

func nothingRecorded(object.Key) (e managedresource.ManagedResourceStatus, ok bool) { return e, false }

// recorded returns the inventory's entry of an object.
func (w *world) recorded(key object.Key) (e managedresource.ManagedResourceStatus, ok bool) {
	e, ok = w.inventory[key]
	return e, ok
}
