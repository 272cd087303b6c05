package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/exports"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// The pauses of jobs.
const (
	stepInterval = time.Second
	slotPoll     = time.Minute
	queuedAfter  = 30 * time.Second
)

// anotherItem takes slots from the item of a test.
var anotherItem = types.NamespacedName{Name: "another"}

const testType v1alpha1.DeployItemType = "test.pergola.dev/one"

// bench is a reconciler between an API server and a plugin that is a function. Nothing runs by itself: a test does
// each reconcile, and the time is that of the fake clock.
type bench struct {
	*reconciler
	*api
	t      *testing.T
	item   *v1alpha1.DeployItem
	clock  *clocktesting.FakeClock
	plugin *intaketest.Deployer
	events *events.FakeRecorder

	answer answer
	// write is called instead of each write, with a function that does it; n counts them.
	write func(n int, do func() error) error
	n     int
	// finals counts the writes that have set jobIDFinished.
	finals int
	// calls are the operation and the job of each call of the plugin.
	calls []string
	// pending: the job of the last call was not picked up when it began.
	pending bool
	// written is the client of all writes.
	written client.Client
	// errs are the errors of reconciles.
	errs []error

	passing sync.Mutex
	// passed are the hooks that ran, and the calls of the plugin between them; see expectPassed.
	passed []string
}

// answer is what the plugin of a bench does.
type answer func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error)

// newBench returns a bench with a fake API server.
func newBench(t *testing.T, answer answer, modify ...func(*v1alpha1.DeployItem)) *bench {
	t.Helper()
	return newBenchOn(t, newFakeAPI(t), answer, modify...)
}

// newBenchOn creates a namespace with a Context and an item in it, whose plugin answers as it should.
func newBenchOn(t *testing.T, a *api, answer answer, modify ...func(*v1alpha1.DeployItem)) *bench {
	t.Helper()
	b := &bench{
		api: a, t: t, clock: clocktesting.NewFakeClock(time.Now()),
		events: events.NewFakeRecorder(1000),
		answer: answer,
		write:  func(_ int, do func() error) error { return do() },
	}
	b.plugin = &intaketest.Deployer{PluginName: "one", Type: testType}
	b.plugin.OnCall = func(
		ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer,
	) (*plugin.Outcome, error) {
		b.calls, b.pending = append(b.calls, string(op)+" "+c.DeployItem.Status.JobID), c.PickUpPending
		return b.answer(ctx, op, observer)
	}
	b.written = client.WithFieldOwner(interceptor.NewClient(a.admin, b.interceptors()), UserAgent)
	b.reconciler = newReconciler(parts{
		plugin: b.plugin, plugins: &intaketest.Plugins{Serve: []*intaketest.Deployer{b.plugin}}, options: Options{
			Identity: "here", AbortTimeout: time.Minute, MaxCrashes: job.DefaultMaxCrashes,
		}, locks: lock.Off{}, newJobID: uuid.NewString,
		cache: a.admin, items: itemclient.New(b.written, a.admin), exports: exports.New(b.written),
		targets: target.NewResolver(a.admin, a.admin, target.Options{}), recorder: itemevents.New(b.events),
		clock: b.clock, random: func() float64 { return 0 }, log: slog.New(slog.DiscardHandler),
	})
	b.set(func(p *parts) { p.restart() })
	b.item = newDeployItem(b.newNamespace(), "item", modify...)
	b.create(b.item)
	return b
}

// set makes the reconciler anew of changed parts.
func (b *bench) set(change func(*parts)) {
	change(&b.parts)
	b.reconciler = newReconciler(b.parts)
}

// restart gives a reconciler the state of a new process.
func (p *parts) restart() {
	p.memory, p.contents, p.slots = itemstate.NewMemory(), itemstate.NewContents(), slots.New(1, 0, p.clock.Now)
	p.router = intake.NewRouter(intake.Options{
		Plugins: p.plugins, Locks: p.locks, Memory: p.memory, Items: &itemcache.Source{}, Rules: rules(p.options, p.clock),
		Log: p.log,
	})
}

// onRead has a function called instead of each read of an item, with one that does it.
func (b *bench) onRead(read readFunc) {
	b.set(func(p *parts) {
		p.items = itemclient.New(b.written, interceptor.NewClient(b.admin, intercept(read, nil)))
	})
}

// interceptors has writes counted, and done by b.write.
func (b *bench) interceptors() interceptor.Funcs {
	return intercept(nil, func(obj client.Object, patch client.Patch, do func() error) error {
		b.n++
		return b.write(b.n, func() error {
			err := do()
			if err == nil && patch != nil && setsFinished(b.t, obj, patch) {
				b.finals++
			}
			return err
		})
	})
}

// setsFinished reports whether a patch sets jobIDFinished.
func setsFinished(t *testing.T, obj client.Object, patch client.Patch) bool {
	raw, err := patch.Data(obj)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(raw), `"jobIDFinished":"`)
}

// reconcile reconciles the item once, and returns when the next time is due; zero for none.
func (b *bench) reconcile(ctx context.Context) time.Duration {
	b.t.Helper()
	result, err := b.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.item)})
	if err != nil {
		b.errs = append(b.errs, err)
		return time.Second
	}
	return result.RequeueAfter
}

// drive reconciles until there is nothing to do any more, and returns what has become of the item.
func (b *bench) drive() *v1alpha1.DeployItem {
	b.t.Helper()
	for range 100 {
		wait := b.reconcile(b.t.Context())
		if wait == 0 {
			return b.read()
		}
		b.clock.Step(wait)
	}
	b.t.Fatalf("the item does not come to an end: %s", describe(b.read()))
	return nil
}

// read reads the item anew; nil if it is gone.
func (b *bench) read() *v1alpha1.DeployItem {
	b.t.Helper()
	return b.api.read(b.item)
}

// setJob sets a job as a Landscaper does.
func (b *bench) setJob() string {
	b.t.Helper()
	return b.api.setJob(b.item, b.clock.Now())
}

func (b *bench) pass(what string) {
	b.passing.Lock()
	defer b.passing.Unlock()
	b.passed = append(b.passed, what)
}

// expectPassed checks what has been passed since the last time.
func (b *bench) expectPassed(reason string, want ...string) {
	b.t.Helper()
	b.passing.Lock()
	defer b.passing.Unlock()
	if diff := cmp.Diff(want, b.passed); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
	b.passed = nil
}

// expectPhase checks the phase of the item, and whether its job has ended.
func (b *bench) expectPhase(phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	b.t.Helper()
	item := b.read()
	if item == nil || item.Status.Phase != phase || phase.IsFinal() != (item.Status.JobID == item.Status.JobIDFinished) {
		b.t.Fatalf("expected phase %s, but found %s (errors %v)", phase, describe(item), b.errs)
	}
	return item
}

// driveTo reconciles until there is nothing to do any more, and checks the phase of the item.
func (b *bench) driveTo(phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	b.t.Helper()
	b.drive()
	return b.expectPhase(phase)
}

// recorded returns the events since the last time.
func (b *bench) recorded() []string {
	var recorded []string
	for len(b.events.Events) > 0 {
		recorded = append(recorded, <-b.events.Events)
	}
	return recorded
}

func newDeployItem(namespace, name string, modify ...func(*v1alpha1.DeployItem)) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Annotations: map[string]string{v1alpha1.DeployerTypeAnnotation: string(testType)},
		},
		Spec: v1alpha1.DeployItemSpec{Type: testType},
	}
	for _, m := range modify {
		m(item)
	}
	return item
}

func withTargetNamed(name string) func(*v1alpha1.DeployItem) {
	return func(i *v1alpha1.DeployItem) {
		i.Spec.Target = &v1alpha1.ObjectReference{Name: name, Namespace: i.Namespace}
		i.Annotations[v1alpha1.DeployerTargetNameAnnotation] = name
	}
}

func withoutTimeout(i *v1alpha1.DeployItem) {
	i.Spec.Timeout, i.Finalizers = v1alpha1.NoDuration, []string{v1alpha1.Finalizer}
}

func withTimeout(timeout v1alpha1.Duration) func(*v1alpha1.DeployItem) {
	return func(i *v1alpha1.DeployItem) { i.Spec.Timeout = timeout }
}

func withFinalizer(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} }

func describe(item *v1alpha1.DeployItem) string {
	if item == nil {
		return "gone"
	}
	text := fmt.Sprintf(
		"phase %q, jobID %q, jobIDFinished %q", item.Status.Phase, item.Status.JobID, item.Status.JobIDFinished,
	)
	if item.Status.LastError != nil {
		text += fmt.Sprintf(", last error %s: %s", item.Status.LastError.Reason, item.Status.LastError.Message)
	}
	return text
}

// hook gives a plugin hooks of some types.
func hook(d *intaketest.Deployer, run func() (*sdkhook.Result, error), types ...sdkhook.Type) {
	for _, hookType := range types {
		d.Capabilities.HookTypes = append(d.Capabilities.HookTypes, string(hookType))
	}
	d.OnHooks = func(context.Context, plugin.HookCall) ([]plugin.HookOutcome, error) {
		result, err := run()
		var known plugin.Error
		switch {
		case errors.As(err, &known):
			return []plugin.HookOutcome{{Error: &known}}, nil
		case err != nil:
			return nil, err
		}
		return []plugin.HookOutcome{{}, {Result: result}}, nil
	}
}

const providerStatus = `{"apiVersion":"test.pergola.dev/v1","kind":"Status","revision":9007199254740993}`

// succeeds is a plugin that saves a provider status, and then succeeds with exports.
func succeeds(ctx context.Context, op plugin.Operation, observer plugin.Observer) (*plugin.Outcome, error) {
	if err := observer.SaveProviderStatus(ctx, []byte(providerStatus)); err != nil {
		return fails(err.Error())
	}
	outcome := &plugin.Outcome{Succeeded: &plugin.Succeeded{}}
	if op == plugin.Reconcile {
		outcome.Succeeded.Exports = []byte(`{"a":1}`)
	}
	return outcome, nil
}

func fails(reason string) (*plugin.Outcome, error) {
	return &plugin.Outcome{Errors: []plugin.Error{{Operation: "Apply", Reason: reason, Message: reason}}}, nil
}

// failsFor is an error with a code, the reason of which is its message.
func failsFor(code v1alpha1.ErrorCode, reason string) (*plugin.Outcome, error) {
	outcome, err := fails(reason)
	outcome.Errors[0].Codes = []v1alpha1.ErrorCode{code}
	return outcome, err
}

func succeeded() (*plugin.Outcome, error) {
	return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
}

func done(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
	return succeeded()
}

func waits(what string) (*plugin.Outcome, error) {
	return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Hour, WaitingFor: what}}, nil
}

// always is a plugin with one outcome.
func always(outcome *plugin.Outcome, err error) answer {
	return func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) { return outcome, err }
}

func rawStatus(item *v1alpha1.DeployItem) string {
	if item.Status.ProviderStatus == nil {
		return ""
	}
	return string(item.Status.ProviderStatus.Raw)
}

func raw(document string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(document)} }
