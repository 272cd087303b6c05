package controller

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// patience bounds how long a test waits for something that must happen.
const patience = 30 * time.Second

var typesUsed atomic.Int64

// newType is a type that no other test's items have: all controllers see all items.
func newType() v1alpha1.DeployItemType {
	return v1alpha1.DeployItemType(fmt.Sprintf("test.pergola.dev/%d", typesUsed.Add(1)+100))
}

// startController starts a whole controller with these plugins. It is stopped at the end of the test.
func (a *api) startController(plugins *fakePlugins, set ...func(*Options)) *Controller {
	a.t.Helper()
	options := Options{Identity: "here", Workers: 2, AbortTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)}
	for _, s := range set {
		s(&options)
	}
	var c *Controller
	testenv.StartManager(a.t, a.config, manager.Options{
		Cache:  cache.Options{ByObject: map[client.Object]cache.ByObject{NewMetadata(): {Transform: Slim}}},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&v1alpha1.DeployItem{}}}},
	}, func(m manager.Manager) error {
		c = New(m, options)
		c.setPlugins(plugins)
		return m.Add(c)
	})
	return c
}

// waitFinished waits until a job is finished.
func (a *api) waitFinished(item *v1alpha1.DeployItem, jobID string) *v1alpha1.DeployItem {
	a.t.Helper()
	a.waitFor(item, "whose job has ended", func(i *v1alpha1.DeployItem) bool { return i.Status.JobIDFinished == jobID })
	return a.read(item)
}

func (a *api) waitFor(item *v1alpha1.DeployItem, what string, so func(*v1alpha1.DeployItem) bool) {
	a.t.Helper()
	await.For(a.t.Context(), a.t, patience, "an item "+what, func(context.Context) (string, error) {
		if fresh := a.read(item); !so(fresh) {
			return describe(fresh), nil
		}
		return "", nil
	})
}

// TestServedAgain: whoever looks at the items of a type that comes to be served is told of it each time, also when
// nobody has seen that the plugin was away.
func TestServedAgain(t *testing.T) {
	a, itemType := newServerAPI(t), newType()
	plugins := &fakePlugins{}
	running := a.startController(&fakePlugins{})
	c := New(running.manager, running.options) // whose rounds are those of the test
	c.setPlugins(plugins)
	var told int
	c.onServe = func(_ context.Context, types []v1alpha1.DeployItemType) error {
		if len(types) == 1 && types[0] == itemType {
			told++
		}
		return nil
	}
	if !c.manager.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not start")
	}
	one := func() *fakeDeployer { return &fakeDeployer{name: "one", itemType: itemType} }
	served := map[string]deployer{}
	for i, step := range []struct {
		what    string
		serving []*fakeDeployer
		want    int
	}{
		{"nobody", nil, 0},
		{"a plugin", []*fakeDeployer{one()}, 1},
		{"nobody any more", nil, 1},
		{"a plugin again", []*fakeDeployer{one()}, 2},
		{"another process of it", []*fakeDeployer{one()}, 3},
	} {
		plugins.change(func(p *fakePlugins) { p.serving = step.serving })
		for range 2 { // a round in which nothing changes tells nobody
			if err := c.follow(t.Context(), served); err != nil {
				t.Fatal(err)
			}
		}
		if told != step.want {
			t.Errorf("step %d, %s: told %d times, expected %d", i, step.what, told, step.want)
		}
	}
}

func TestTypeIsReadWhereTheMetadataDoesNotTellIt(t *testing.T) {
	a, first, second := newServerAPI(t), newType(), newType()
	one := &fakeDeployer{name: "one", itemType: first}
	two := &fakeDeployer{name: "two", itemType: second}
	one.call = func(ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer) (*plugin.Outcome, error) {
		return succeeds(ctx, op, o)
	}
	two.call = one.call
	a.startController(&fakePlugins{serving: []*fakeDeployer{one, two}})
	namespace := a.newNamespace()
	for name, annotation := range map[string]string{"silent": "", "lying": string(first)} {
		item := newDeployItem(namespace, name, func(i *v1alpha1.DeployItem) {
			i.Spec.Type, i.Annotations = second, map[string]string{v1alpha1.DeployerTypeAnnotation: annotation}
		})
		a.create(item)
		for range 2 {
			if item = a.waitFinished(item, a.setJob(item, time.Now())); item.Status.Deployer.Name != "two" {
				t.Errorf("%s: an item of type %s was carried out by %s", name, second, item.Status.Deployer.Name)
			}
		}
	}
}

// TestAllStartedIsTold: when all plugins have come through their first attempt to start it is known of each type
// whether somebody serves it.
func TestAllStartedIsTold(t *testing.T) {
	a, plugins := newServerAPI(t), &fakePlugins{}
	c := a.startController(plugins)
	told := make(chan []v1alpha1.DeployItemType, 10)
	c.onServe = func(_ context.Context, types []v1alpha1.DeployItemType) error {
		told <- types
		return nil
	}
	plugins.change(func(p *fakePlugins) { p.started = true })
	c.Changed()
	select {
	case types := <-told:
		if len(types) != 0 {
			t.Errorf("nothing is served, but %v is told", types)
		}
	case <-time.After(patience):
		t.Error("nobody is told")
	}
}
