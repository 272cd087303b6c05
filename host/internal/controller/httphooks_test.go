package controller

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// hookedByHTTP is a bench whose items have an HTTP hook, with a real server.
type hookedByHTTP struct {
	*bench
	hook *httphook.Hook
	// registered is why there is a hook that cannot be called; nil if it can.
	registered error
	// serve answers a request of the hook; {} if it is nil.
	serve http.HandlerFunc

	mu sync.Mutex
	// requests are the bodies of the requests.
	requests []hookRequest
	// children are those that the plugin was called with last.
	children []sdk.Child
}

type hookRequest struct {
	Phase    string                                `json:"phase"`
	Object   *v1alpha1.DeployItem                  `json:"object"`
	Children map[string]*unstructured.Unstructured `json:"children"`
}

func (b *hookedByHTTP) For(v1alpha1.DeployItemType) (*httphook.Hook, error) {
	if b.registered != nil {
		return nil, b.registered
	}
	return b.hook, nil
}

func (b *hookedByHTTP) Synced() <-chan struct{} { return nil }

func newHookedByHTTP(t *testing.T, answer answer, capabilities ...v1alpha1.HookCapability) *hookedByHTTP {
	t.Helper()
	b := &hookedByHTTP{}
	b.bench = newBench(t, answer)
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.hook = httphook.New(httphook.Options{
		Registration: "labels", URL: address, Capabilities: capabilities, Timeout: 5 * time.Minute,
		Conditions: []v1alpha1.ConditionType{"Labelled"},
		Metrics:    httphook.NewMetrics(),
	})
	b.set(func(p *parts) { p.options.HTTPHooks = b })
	b.plugin.OnCall = func(
		ctx context.Context, op plugin.Operation, c plugin.Call, observer plugin.Observer,
	) (*plugin.Outcome, error) {
		b.pass("call " + string(op))
		b.children = c.Children
		return b.answer(ctx, op, observer)
	}
	b.plugin.Capabilities.Render = true
	b.plugin.OnRender = func(context.Context, plugin.Call) (*plugin.Rendered, error) {
		return &plugin.Rendered{Children: []sdk.Child{{
			Name: "manifests[0]", Object: json.RawMessage(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"},"data":{"n":"1"}}`,
			),
		}}}, nil
	}
	return b
}

func (b *hookedByHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request hookRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.pass(request.Phase)
	b.mu.Lock()
	b.requests = append(b.requests, request)
	b.mu.Unlock()
	if b.serve != nil {
		b.serve(w, r)
	}
}

// Rule (hooks.md#requests): `pre-reconcile` comes before anything is applied, and its children are applied as they are.
func TestHTTPHookChangesChildren(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	b.serve = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{
			"children":{"configmap":{"apiVersion":"v1","kind":"ConfigMap",
				"metadata":{"name":"a","namespace":"b","labels":{"x":"y"}},"data":{"n":"1"}}},
			"object":{"status":{"phase":"Failed","jobIDFinished":"lie","conditions":[
				{"type":"Labelled","status":"True","reason":"Labelled","message":"all"},
				{"type":"Ready","status":"False","reason":"Lie","message":"lie"}]}}}`))
	}
	b.setJob()
	item := b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	b.expectPassed("the hook comes first", "pre-reconcile", "call Reconcile")
	if len(b.children) != 1 || b.children[0].Name != "manifests[0]" ||
		!strings.Contains(string(b.children[0].Object), `"labels":{"x":"y"}`) {
		t.Errorf("unexpected children of the call: %s", b.children)
	}
	request := b.requests[0]
	if !slices.Contains(request.Object.Finalizers, v1alpha1.Finalizer) {
		t.Error("the hook was called before the finalizer was there")
	}
	if request.Object.UID != item.UID || request.Children["configmap"] == nil {
		t.Errorf("unexpected request: %+v", request)
	}
	if c := conditionOf(item, "Labelled"); c == nil || c.Status != v1alpha1.ConditionTrue || c.Message != "all" {
		t.Errorf("unexpected condition: %v", c)
	}
	if c := conditionOf(item, "Ready"); c == nil || c.Status != v1alpha1.ConditionTrue {
		t.Errorf("unexpected condition: %v", c)
	}
}

func conditionOf(item *v1alpha1.DeployItem, conditionType v1alpha1.ConditionType) *v1alpha1.Condition {
	i := slices.IndexFunc(item.Status.Conditions, func(c v1alpha1.Condition) bool { return c.Type == conditionType })
	if i < 0 {
		return nil
	}
	return &item.Status.Conditions[i]
}

// Rule (hooks.md#registration): A hook is called only for its declared capabilities.
func TestHTTPHookCapabilities(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		capabilities []v1alpha1.HookCapability
		want         []string
	}{
		"none": {want: []string{"call Reconcile", "call Delete"}},
		"pre-reconcile": {
			capabilities: []v1alpha1.HookCapability{"pre-reconcile"},
			want:         []string{"pre-reconcile", "call Reconcile", "call Delete"},
		},
		"finalize": {
			capabilities: []v1alpha1.HookCapability{"finalize"}, want: []string{"call Reconcile", "finalize", "call Delete"},
		},
	} {
		b := newHookedByHTTP(t, done, tc.capabilities...)
		b.setJob()
		b.drive()
		b.remove(b.item)
		b.setJob()
		if item := b.drive(); item != nil {
			t.Errorf("%s: %s", name, describe(item))
		}
		b.expectPassed(name, tc.want...)
	}
}

// beginDeletion sets a job that deletes the item, which has its finalizer.
func (b *hookedByHTTP) beginDeletion() {
	b.t.Helper()
	b.patch(b.item, `{"metadata":{"finalizers":["`+v1alpha1.Finalizer+`"]}}`)
	b.remove(b.item)
	b.setJob()
}

// TestHTTPHookIsFinalizedOnce: a deletion that takes its time does not ask again.
// Rule (hooks.md#requests): `finalize` comes before the deletion, and once.
func TestHTTPHookIsFinalizedOnce(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, always(waits("what is left")), v1alpha1.HookFinalize)
	b.beginDeletion()
	for range 3 {
		b.reconcile(t.Context())
		b.clock.Step(time.Minute)
		b.memory.Forget(client.ObjectKeyFromObject(b.item)) // as another replica
	}
	b.expectPassed("one agreement is enough", "finalize", "call Delete", "call Delete", "call Delete")
}

// TestHTTPHookBeforeADeletionThatLeavesEverythingBehind: the hook may have objects of its own. It needs a slot, as a
// call does, so that new jobs are picked up meanwhile.
// Rule (deploy-items.md#deleting): `delete-without-uninstall` removes the finalizer, and the deployer is not called.
func TestHTTPHookBeforeADeletionThatLeavesEverythingBehind(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, nil, v1alpha1.HookFinalize)
	b.annotate(b.item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	b.beginDeletion()
	b.slots.Acquire(anotherItem, slots.Share{}, slots.Preferred)
	b.reconcile(t.Context())
	b.expectPassed("others have all of the slots")
	b.slots.Release(anotherItem)
	b.router.SlotsReserved(b.name, b.slots.EndReconcile(anotherItem, false))
	b.fails("")
	b.clock.Step(b.reconcile(t.Context()))
	if b.expectPassed("the hook does not agree", "finalize"); b.read() == nil {
		t.Error("the item is gone although its hook has not agreed")
	}
	b.serve = nil
	if item := b.drive(); item != nil {
		t.Error(describe(item))
	}
	b.expectPassed("and the plugin is not called", "finalize")
}

// TestHTTPHookIsInterrupted: a hook that takes its time is left when the job is over, and when the host stops.
func TestHTTPHookIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]func(b *hookedByHTTP, stop func()){
		"an abort": func(b *hookedByHTTP, _ func()) {
			b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
			b.memory.Changed(client.ObjectKeyFromObject(b.item))
		},
		"the host stops": func(_ *hookedByHTTP, stop func()) { stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			left := make(chan struct{})
			b.serve = func(_ http.ResponseWriter, r *http.Request) {
				interrupt(b, stop)
				<-r.Context().Done()
				close(left)
			}
			b.setJob()
			b.reconcile(ctx)
			<-left
			if b.expectPassed("the plugin is not called", "pre-reconcile"); b.read().Status.LastError != nil {
				t.Errorf("unexpected error: %v", b.read().Status.LastError)
			}
		})
	}
}

// TestOrderOfHooks: extension hooks come before the HTTP hook, and after the plugin.
// Rule (hooks.md#requests): Plugin hooks run before the HTTP hook, and after the deployer.
func TestOrderOfHooks(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	b.plugin.Capabilities.HookTypes = []string{"BeforeReconcile", "End"}
	b.plugin.OnHooks = func(_ context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error) {
		b.pass(string(call.Type))
		return nil, nil
	}
	b.setJob()
	b.drive()
	b.expectPassed("as documented", "BeforeReconcile", "pre-reconcile", "call Reconcile", "End")
}
