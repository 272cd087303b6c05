package watched

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const itemType = "example.org/thing"

// ranks have the rank of this replica for all items.
type ranks struct {
	lock.Off
	rank int
}

func (r *ranks) Rank(lock.Key) int { return r.rank }

// bench has one item with a job that waits here, and the Target "account".
type bench struct {
	*testing.T
	*Items
	client client.Client
	plugin *intaketest.Deployer
	ranks  *ranks
	item   *v1alpha1.DeployItem
}

func newBench(t *testing.T) *bench {
	t.Helper()
	fake, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, client: fake, ranks: &ranks{}, plugin: &intaketest.Deployer{PluginName: "thing", Type: itemType}}
	b.Items = &Items{
		Plugins: &intaketest.Plugins{Serve: []*intaketest.Deployer{
			b.plugin, {PluginName: "other", Type: "example.org/other"},
		}},
		Cached: &itemcache.Source{}, Live: itemclient.New(fake, fake), Memory: itemstate.NewMemory(), Locks: b.ranks,
		Targets:     target.NewResolver(fake, fake, target.Options{DefaultContext: true}),
		Responsible: func(context.Context, *v1alpha1.DeployItem) (bool, error) { return true, nil },
		ShowsHealth: true,
	}
	b.plugin.Capabilities.CheckHealth = true
	b.item = &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid", Generation: 1},
		Spec:       v1alpha1.DeployItemSpec{Type: itemType, Target: &v1alpha1.ObjectReference{Name: "account"}},
	}
	b.create(b.item)
	b.newTarget(`{"token":"t0ps3cret"}`)
	b.waits()
	return b
}

func (b *bench) create(object client.Object) {
	b.Helper()
	if err := b.client.Create(b.Context(), object); err != nil {
		b.Fatal(err)
	}
}

// newTarget creates the Target with this user in its kubeconfig.
func (b *bench) newTarget(user string) {
	b.Helper()
	content := `{"kubeconfig":{"apiVersion":"v1","kind":"Config","current-context":"c",
		"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"https://example.org"}}],
		"users":[{"name":"u","user":` + user + `}]}}`
	b.create(&v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "account"},
		Spec: v1alpha1.TargetSpec{
			Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{Raw: []byte(content)},
		},
	})
}

// waits has the job of the item wait here.
func (b *bench) waits() {
	b.item.Status.JobID = "job"
	contract.Begin(b.item, false, v1alpha1.DeployerInformation{}, time.Now())
	b.Memory.Begin(b.item, itemstate.Entry{}, "thing")
	b.write()
}

// deployed ends the job.
func (b *bench) deployed() {
	contract.Succeed(b.item, time.Now())
	b.Memory.Forget(client.ObjectKeyFromObject(b.item))
	b.write()
}

func (b *bench) write() {
	b.Helper()
	if err := b.client.Status().Update(b.Context(), b.item); err != nil {
		b.Fatal(err)
	}
	b.Cached = &itemcache.Source{}
	_ = b.Cached.NewInformer(nil, &v1alpha1.DeployItem{}, 0, nil).GetIndexer().Add(itemcache.Slim(b.item))
}

// Rule (plugin-authors.md#watching): The items of a watch are those with a job of this replica and, with a
// HealthChecker in standalone mode, the deployed ones of this replica; others are refused.
func TestItemsOfAWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*bench)
		plugin  string // default: the item's
		watched bool
	}{
		"a job that waits here":       {change: func(*bench) {}, watched: true},
		"a job of another replica":    {change: func(b *bench) { b.Memory.Forget(client.ObjectKeyFromObject(b.item)) }},
		"deployed":                    {change: (*bench).deployed, watched: true},
		"deployed, of another plugin": {change: (*bench).deployed, plugin: "other"},
		"a job of another plugin":     {change: func(*bench) {}, plugin: "other"},
		"a plugin that does not serve": {
			change: func(*bench) {}, plugin: "unknown",
		},
		"deployed, but preferred by another replica": {change: func(b *bench) { b.deployed(); b.ranks.rank = 1 }},
		"deployed beside a Landscaper":               {change: func(b *bench) { b.deployed(); b.ShowsHealth = false }},
		"deployed, without a HealthChecker": {
			change: func(b *bench) { b.deployed(); b.plugin.Capabilities.CheckHealth = false },
		},
		"deployed, of another host": {change: func(b *bench) {
			b.deployed()
			b.Responsible = func(context.Context, *v1alpha1.DeployItem) (bool, error) { return false, nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			tc.change(b)
			pluginName := "thing"
			if tc.plugin != "" {
				pluginName = tc.plugin
			}
			var want []sdk.WatchedItem
			if tc.watched {
				want = []sdk.WatchedItem{{Namespace: "shop", Name: "web", Target: "account"}}
			}
			got, err := b.List(t.Context(), pluginName)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("error %v, items (-want +got):\n%s", err, diff)
			}
			call, err := b.CallFor(t.Context(), pluginName, client.ObjectKeyFromObject(b.item))
			if refused, _ := errors.AsType[plugin.Error](err); (err == nil) != tc.watched ||
				err != nil && (refused.Reason != "ItemNotWatched" || call.Target != nil) {
				t.Errorf("expected that it is given: %t, but found: %v", tc.watched, err)
			}
		})
	}
	b := newBench(t)
	_, err := b.CallFor(t.Context(), "thing", types.NamespacedName{Namespace: "shop", Name: "gone"})
	if refused, _ := errors.AsType[plugin.Error](err); refused.Reason != "ItemNotWatched" {
		t.Errorf("no item: %v", err)
	}
}

// Rule (plugin-authors.md#watching): The Target of a question is resolved anew, under the policy of calls.
func TestCallForAnItem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := client.ObjectKeyFromObject(b.item)
	for _, tc := range []struct{ user, reason string }{
		{`{"token":"first"}`, ""},
		{`{"token":"second"}`, ""},
		{`{"exec":{"command":"sh"}}`, "TargetForbidden"},
		{`{"tokenFile":"/etc/shadow"}`, "TargetForbidden"},
		{"", "NoTargetFound"},
	} {
		existing := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "account"}}
		if err := b.client.Delete(t.Context(), existing); err != nil {
			t.Fatal(err)
		}
		if tc.user != "" {
			b.newTarget(tc.user)
		}
		call, err := b.CallFor(t.Context(), "thing", key)
		found, _ := errors.AsType[plugin.Error](err)
		if found.Reason != tc.reason || (err == nil) != (tc.reason == "") ||
			err != nil && !slices.Contains(found.Codes, v1alpha1.ErrorConfigurationProblem) {
			t.Errorf("%s: expected the reason %q, but found: %v", tc.user, tc.reason, err)
		}
		if err == nil && (!strings.Contains(call.Target.Content, tc.user[10:15]) || call.DeployItem.Name != "web" ||
			call.Context.Name != v1alpha1.DefaultContextName) {
			t.Errorf("%s: found another call: %v", tc.user, call)
		}
	}
}
