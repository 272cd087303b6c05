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
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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
	scheme, err := testenv.Scheme()
	if err != nil {
		a.t.Fatal(err)
	}
	mgr, err := manager.New(a.config, manager.Options{
		Scheme:     scheme,
		Controller: config.Controller{SkipNameValidation: new(true)}, // of all controllers of this process
		Metrics:    server.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{NewMetadata(): {Transform: Slim}}},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&v1alpha1.DeployItem{}}}},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	options := Options{Identity: "here", Workers: 2, AbortTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)}
	for _, s := range set {
		s(&options)
	}
	c := New(mgr, options)
	c.setPlugins(plugins)
	if err := mgr.Add(c); err != nil {
		a.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(a.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	a.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			a.t.Error(err)
		}
	})
	return c
}

// waitFinished waits until a job is finished with success.
func (a *api) waitFinished(item *v1alpha1.DeployItem, jobID string) *v1alpha1.DeployItem {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	fresh := &v1alpha1.DeployItem{}
	for {
		if err := a.admin.Get(ctx, client.ObjectKeyFromObject(item), fresh); err != nil {
			a.t.Fatal(err)
		}
		if fresh.Status.JobIDFinished == jobID {
			return fresh
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			a.t.Fatalf("the job does not end: %s", describe(fresh))
		}
	}
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
