package objecthealth

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const itemType = "example.org/thing"

var key = types.NamespacedName{Namespace: "shop", Name: "web"}

// bench is a Checker with one item, deployed and ready at first, and its plugin.
type bench struct {
	*testing.T
	*Checker
	client client.Client
	// answers are those of the plugin, in their order; the last one is repeated.
	answers []answer
	calls   int
	// during is called in each call.
	during func()
}

// answer is what the objects lack, or an error.
type answer struct {
	lacks string
	err   error
}

func newBench(t *testing.T, answers ...answer) *bench {
	t.Helper()
	fake, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, client: fake, answers: answers, during: func() {}}
	p := &intaketest.Deployer{
		PluginName: "thing", Type: itemType, Capabilities: plugin.Capabilities{CheckHealth: true}, OnCall: b.call,
	}
	b.Checker = New(Options{
		Plugins: &intaketest.Plugins{Serve: []*intaketest.Deployer{p}}, Cache: fake, Items: itemclient.New(fake, fake),
		Targets:     target.NewResolver(fake, fake, target.Options{DefaultContext: true}),
		Responsible: func(context.Context, *v1alpha1.DeployItem) (bool, error) { return true, nil },
		Clock:       clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
	})
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 1},
		Spec:       v1alpha1.DeployItemSpec{Type: itemType},
	}
	if err := fake.Create(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	b.change(func(i *v1alpha1.DeployItem) {
		i.Status.JobID = "job"
		contract.Begin(i, false, v1alpha1.DeployerInformation{}, b.Clock.Now())
		contract.Succeed(i, b.Clock.Now())
	})
	return b
}

func (b *bench) call(
	ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer,
) (*plugin.Outcome, error) {
	if op != plugin.CheckHealth || o.SaveProviderStatus(ctx, nil) == nil {
		b.Errorf("%s, and not a check that changes nothing", op)
	}
	b.during()
	a := b.answers[min(b.calls, len(b.answers)-1)]
	b.calls++
	switch {
	case a.err != nil:
		return nil, a.err
	case a.lacks != "":
		return &plugin.Outcome{InProgress: &plugin.InProgress{WaitingFor: a.lacks}}, nil
	default:
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
	}
}

func (b *bench) read() *v1alpha1.DeployItem {
	b.Helper()
	item := &v1alpha1.DeployItem{}
	if err := b.client.Get(context.Background(), key, item); err != nil {
		b.Fatal(err)
	}
	return item
}

// change changes the status of the item.
func (b *bench) change(change func(*v1alpha1.DeployItem)) {
	b.Helper()
	item := b.read()
	change(item)
	if err := b.client.Status().Update(context.Background(), item); err != nil {
		b.Fatal(err)
	}
}

// ready is the reason of Ready.
func (b *bench) ready() string {
	for _, c := range b.read().Status.Conditions {
		if c.Type == contract.ConditionReady {
			return c.Reason
		}
	}
	return ""
}

// Rule (deploy-items.md#health): The wake-ups of an item within two seconds lead to one check; after an
// error it is repeated, and also if the item changes meanwhile.
func TestChecks(t *testing.T) {
	lacks, heals, fails := answer{lacks: "a Pod"}, answer{}, answer{err: errors.New("no answer")}
	edited := func(b *bench) func() { // by another client, and without a job
		return func() {
			if b.calls == 0 {
				b.change(func(i *v1alpha1.DeployItem) { i.Status.Deployer.Version = "2" })
			}
		}
	}
	for name, tc := range map[string]struct {
		answers []answer
		during  func(*bench) func()
		calls   int
		want    string
	}{
		"healthy":                {answers: []answer{heals}, calls: 1, want: "Succeeded"},
		"unhealthy":              {answers: []answer{lacks}, calls: 1, want: contract.ReasonUnhealthy},
		"after an error":         {answers: []answer{fails, lacks}, calls: 2, want: contract.ReasonUnhealthy},
		"changed meanwhile":      {answers: []answer{lacks}, during: edited, calls: 2, want: contract.ReasonUnhealthy},
		"errors without an end":  {answers: []answer{fails}, calls: 20, want: "Succeeded"},
		"a crash of the plugin":  {answers: []answer{{err: plugin.ErrCrashed}, heals}, calls: 2, want: "Succeeded"},
		"a plugin that is away":  {answers: []answer{{err: plugin.ErrNotRunning}, lacks}, calls: 2, want: "Unhealthy"},
		"healthy again, in time": {answers: []answer{heals, lacks}, calls: 1, want: "Succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tc.answers...)
				if tc.during != nil {
					b.during = tc.during(b)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer func() { cancel(); synctest.Wait() }()
				go b.Checker.Run(ctx)
				for range 10 {
					b.Woken(key)
				}
				b.Clock.Sleep(2 * time.Hour)
				synctest.Wait()
				if b.calls != tc.calls || b.ready() != tc.want {
					t.Errorf("expected %d calls and %s, but found %d and %s", tc.calls, tc.want, b.calls, b.ready())
				}
			})
		})
	}
}

// Rule (deploy-items.md#health): Only a deployed item without a job is checked.
func TestWhatIsNotChecked(t *testing.T) {
	for name, change := range map[string]func(*bench){
		"a job under way": func(b *bench) { b.change(func(i *v1alpha1.DeployItem) { i.Status.JobID = "next" }) },
		"a failed job": func(b *bench) {
			b.change(func(i *v1alpha1.DeployItem) { i.Status.Phase = v1alpha1.DeployItemPhaseFailed })
		},
		"another spec": func(b *bench) { b.change(func(i *v1alpha1.DeployItem) { i.Status.ObservedGeneration = -1 }) },
		"an item of another host": func(b *bench) {
			b.Responsible = func(context.Context, *v1alpha1.DeployItem) (bool, error) { return false, nil }
		},
		"a plugin without CheckHealth": func(b *bench) {
			b.Plugins = &intaketest.Plugins{Serve: []*intaketest.Deployer{{PluginName: "thing", Type: itemType}}}
		},
		"no item": func(b *bench) {
			if err := b.client.Delete(b.Context(), b.read()); err != nil {
				b.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answer{lacks: "a Pod"})
			change(b)
			if err := b.check(t.Context(), key); err != nil || b.calls != 0 {
				t.Errorf("expected no call, but found %d, error %v", b.calls, err)
			}
		})
	}
}

// Rule (deploy-items.md#health): After the start of a plugin its unhealthy items are checked, and no others;
// one whose check fails keeps its pause.
func TestStarted(t *testing.T) {
	unhealthy := func(i *v1alpha1.DeployItem) { contract.ShowHealth(i, "a Pod", i.Status.TransitionTimes.InitTime.Time) }
	for name, tc := range map[string]struct {
		plugin   string
		before   func(*v1alpha1.DeployItem)
		requeues int
		calls    int
	}{
		"unhealthy":             {"thing", unhealthy, 0, 1},
		"healthy":               {"thing", func(*v1alpha1.DeployItem) {}, 0, 0},
		"of another plugin":     {"other", unhealthy, 0, 0},
		"with errors until now": {"thing", unhealthy, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, answer{})
				b.change(tc.before)
				b.Cached = &itemcache.Source{}
				store := b.Cached.NewInformer(nil, &v1alpha1.DeployItem{}, 0, nil).GetIndexer()
				_ = store.Add(itemcache.Slim(b.read())) // which cannot fail for an item that has a name
				ctx, cancel := context.WithCancel(t.Context())
				defer func() { cancel(); synctest.Wait() }()
				go b.Checker.Run(ctx)
				for range tc.requeues {
					b.limiter.When(key)
				}
				b.Started([]string{tc.plugin})
				b.Clock.Sleep(time.Minute)
				synctest.Wait()
				if b.calls != tc.calls {
					t.Errorf("expected %d checks, but found %d", tc.calls, b.calls)
				}
			})
		})
	}
}

// A job that begins during a check has the last word.
func TestJobDuringCheck(t *testing.T) {
	b := newBench(t, answer{lacks: "a Pod"})
	b.during = func() { b.change(func(i *v1alpha1.DeployItem) { i.Status.JobID = "next" }) }
	if err := b.check(t.Context(), key); !errors.Is(err, itemclient.ErrOutdated) || b.ready() != "Succeeded" {
		t.Errorf("expected no write, but found %s, error %v", b.ready(), err)
	}
}
