package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
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
func (a *api) startController(plugins intake.Plugins, set ...func(*Options)) *Controller {
	a.t.Helper()
	options := Options{Identity: "here", Workers: 2, AbortTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)}
	for _, s := range set {
		s(&options)
	}
	source, err := itemcache.NewSource(a.config, a.admin.Scheme())
	if err != nil {
		a.t.Fatal(err)
	}
	options.Items = source
	var c *Controller
	testenv.StartManager(a.t, a.config, manager.Options{
		Cache:  cache.Options{NewInformer: source.NewInformer},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&v1alpha1.DeployItem{}}}},
	}, func(m manager.Manager) error {
		c = newController(m, plugins, options)
		return m.Add(c)
	})
	return c
}

// waitFor waits until an item is so.
func (a *api) waitFor(item *v1alpha1.DeployItem, what string, so func(*v1alpha1.DeployItem) bool) {
	a.t.Helper()
	await.For(a.t.Context(), a.t, patience, "an item "+what, func(context.Context) (string, error) {
		if fresh := a.read(item); !so(fresh) {
			return describe(fresh), nil
		}
		return "", nil
	})
}

// succeedsFor is succeeds for any item.
func succeedsFor(
	ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer,
) (*plugin.Outcome, error) {
	return succeeds(ctx, op, o)
}

// Rule (host-configuration.md#target-selectors): The spec says the type and the Target of an item, whatever its
// annotations repeat.
func TestTypeIsReadWhereTheMetadataDoesNotTellIt(t *testing.T) {
	a, first, second := newServerAPI(t), newType(), newType()
	one := &intaketest.Deployer{PluginName: "one", Type: first}
	two := &intaketest.Deployer{PluginName: "two", Type: second}
	one.OnCall, two.OnCall = succeedsFor, succeedsFor
	a.startController(&intaketest.Plugins{Serve: []*intaketest.Deployer{one, two}})
	namespace := a.newNamespace()
	for name, annotation := range map[string]string{"silent": "", "lying": string(first)} {
		item := newDeployItem(namespace, name, func(i *v1alpha1.DeployItem) {
			i.Spec.Type, i.Annotations = second, map[string]string{v1alpha1.DeployerTypeAnnotation: annotation}
		})
		a.create(item)
		for range 2 {
			jobID := a.setJob(item, time.Now())
			a.waitFor(item, name+" whose job has ended", func(i *v1alpha1.DeployItem) bool {
				return i.Status.JobIDFinished == jobID && i.Status.Deployer.Name == "two"
			})
		}
	}
}

// TestServed: the setter of jobs hears of the types of each plugin that begins to serve, once, and of the end of all
// first attempts to start, since it is known then of each type whether a plugin serves it.
func TestServed(t *testing.T) {
	a, early, late, plugins := newServerAPI(t), newType(), newType(), &intaketest.Plugins{}
	served := make(chan []v1alpha1.DeployItemType, 10)
	c := a.startController(plugins, func(o *Options) {
		o.Served = func(types []v1alpha1.DeployItemType) { served <- types }
	})
	for _, step := range []struct {
		what   string
		change func(p *intaketest.Plugins)
		want   []v1alpha1.DeployItemType
	}{
		{
			"a plugin", func(p *intaketest.Plugins) { p.Serve = []*intaketest.Deployer{{PluginName: "early", Type: early}} },
			[]v1alpha1.DeployItemType{early},
		},
		{"all have started", func(p *intaketest.Plugins) { p.AllStarted = true }, nil},
		{
			"another plugin",
			func(p *intaketest.Plugins) {
				p.Serve = append(p.Serve, &intaketest.Deployer{PluginName: "late", Type: late})
			},
			[]v1alpha1.DeployItemType{late},
		},
	} {
		plugins.Change(step.change)
		c.Changed()
		select {
		case types := <-served:
			if !slices.Equal(types, step.want) {
				t.Errorf("%s: expected %v, but heard of %v", step.what, step.want, types)
			}
		case <-time.After(patience):
			t.Fatalf("%s: nothing is heard of it", step.what)
		}
	}
}

// observedPlugins counts how often the plugins were looked at.
type observedPlugins struct {
	intaketest.Plugins
	looks atomic.Int32
}

func (p *observedPlugins) Standby() map[string]bool {
	defer p.looks.Add(1)
	return p.Plugins.Standby()
}

// TestStartAfterStandby: the items of a plugin that show unhealthy objects are checked when its process starts, also
// where the plugin has taken calls all the time.
func TestStartAfterStandby(t *testing.T) {
	a, lacks := newServerAPI(t), atomic.Bool{}
	d := &intaketest.Deployer{
		PluginName: "one", Type: newType(), Capabilities: plugin.Capabilities{CheckHealth: true},
		OnCall: func(
			ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer,
		) (*plugin.Outcome, error) {
			switch {
			case op != plugin.CheckHealth:
				return succeeds(ctx, op, o)
			case lacks.Load():
				return &plugin.Outcome{InProgress: &plugin.InProgress{WaitingFor: "ConfigMap a"}}, nil
			default:
				return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
			}
		},
	}
	plugins := &observedPlugins{Plugins: intaketest.Plugins{Serve: []*intaketest.Deployer{d}}}
	c := a.startController(plugins, func(o *Options) { o.Standalone = true })
	item := newDeployItem(a.newNamespace(), "item", func(i *v1alpha1.DeployItem) { i.Spec.Type = d.Type })
	a.create(item)
	job := a.setJob(item, time.Now())
	a.waitFor(item, "whose job has ended", func(i *v1alpha1.DeployItem) bool { return i.Status.JobIDFinished == job })
	lacks.Store(true)
	c.health.Woken(client.ObjectKeyFromObject(item))
	await.That(t, patience, "a lack in the cache", func() bool {
		cached := &v1alpha1.DeployItem{}
		err := c.manager.GetCache().Get(t.Context(), client.ObjectKeyFromObject(item), cached)
		return err == nil && contract.IsUnhealthy(cached)
	})

	lacks.Store(false)
	for _, standingBy := range []map[string]bool{{"one": true}, nil} {
		plugins.Change(func(p *intaketest.Plugins) { p.StandingBy = standingBy })
		before := plugins.looks.Load()
		c.Changed()
		await.That(t, patience, "a look at the plugins", func() bool { return plugins.looks.Load() > before })
	}
	a.waitFor(item, "without a lack", func(i *v1alpha1.DeployItem) bool { return !contract.IsUnhealthy(i) })
}
