package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/plugins/tracer/trace"
)

// checkedCondition is what the hook of these tests reports.
const checkedCondition v1alpha1.ConditionType = "Checked"

// httpHooked is a host whose plugins manifest and tracer have an HTTP hook.
type httpHooked struct {
	*traced

	server *hookServer
}

// TestHTTPHook: an HTTP hook takes part in reconciles and deletions.
func TestHTTPHook(t *testing.T) {
	h := &httpHooked{traced: startTraced(t, []string{"manifest", "tracer", "probe"}), server: newHookServer(t)}
	h.server.Start()
	createTarget(t, h.namespace, "my-target")
	r := registration("everything", h.server.URL, bothPhases, manifestType, traceType)
	r.Spec.Hook.ConditionsFromHook = []v1alpha1.HookCondition{{Type: checkedCondition}}
	register(t, r)
	checkRegistered(t, waitRegistered(t, r, v1alpha1.ConditionTrue))
	for name, test := range map[string]func(t *testing.T, h *httpHooked){
		"changes what is deployed":                 changeChildren,
		"reports a condition":                      reportCondition,
		"comes between hooks and deployer":         takeTurns,
		"finds the finalizer":                      findFinalizer,
		"holds back the deletion":                  refuseDeletion,
		"fails before a reconcile":                 failPreReconcile,
		"fails before a deletion":                  failFinalize,
		"breaks the contract":                      breakContract,
		"is asked although nothing is uninstalled": finalizeAlone,
		"is not asked about a job that was ended":  leaveEnded,
		"is counted":                               countRequests,
		"is asked again while a job waits":         askWhileWaiting,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h.with(t))
		})
	}
}

// with is the host for a test within the test.
func (h *httpHooked) with(t *testing.T) *httpHooked {
	t.Helper()
	return &httpHooked{traced: h.traced.with(t), server: h.server}
}

// checkRegistered checks what the status of the registration of these tests says.
func checkRegistered(t *testing.T, r *v1alpha1.DeployerRegistration) {
	t.Helper()
	if r.Status.Hook == nil || r.Status.Hook.URL != r.Spec.Hook.Address.URI {
		t.Errorf("expected the address %s, but found %+v", r.Spec.Hook.Address.URI, r.Status.Hook)
	}
	plugins := map[v1alpha1.DeployItemType]string{}
	for _, d := range r.Status.Deployers {
		plugins[d.Type] = fmt.Sprintf("%s of %d", d.Plugin, d.Replicas)
		if d.Version == "" {
			t.Errorf("the plugin has no version: %+v", d)
		}
	}
	want := map[v1alpha1.DeployItemType]string{manifestType: "manifest of 1", traceType: "tracer of 1"}
	if diff := cmp.Diff(want, plugins); diff != "" {
		t.Errorf("plugins (-want +got):\n%s", diff)
	}
}

// labelled are the children with a label more.
func labelled(children map[string]map[string]any) map[string]map[string]any {
	for _, child := range children {
		child["metadata"].(map[string]any)["labels"] = map[string]any{"hooked": "true"}
	}
	return children
}

// changeChildren: a label that the hook adds to each object is there, and so is the condition.
func changeChildren(t *testing.T, h *httpHooked) {
	t.Helper()
	h.server.answer("labelled", func(_ context.Context, w http.ResponseWriter, r *hookRequest) {
		r.Object.Status.Conditions = []v1alpha1.Condition{
			{Type: checkedCondition, Status: v1alpha1.ConditionTrue, Reason: "AllChecked", Message: "all objects have been checked"},
		}
		respondWith(w, r.Object, labelled(r.Children))
	})
	item := withTarget(newItem(h.namespace, "labelled", manifestType, manifestConfig(
		configMap(h.namespace, "one", "x"), configMap(h.namespace, "two", "x"))), "my-target")
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)

	for _, name := range []string{"one", "two"} {
		deployed := &corev1.ConfigMap{}
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: h.namespace, Name: name}, deployed); err != nil {
			t.Fatal(err)
		}
		if deployed.Labels["hooked"] != "true" || deployed.Data["key"] != "x" {
			t.Errorf("expected ConfigMap %s with a label more, but found labels %v, data %v", name, deployed.Labels, deployed.Data)
		}
	}
	if c := conditionOf(item, checkedCondition); c.Status != v1alpha1.ConditionTrue || c.Reason != "AllChecked" {
		t.Errorf("expected the condition that the hook has reported, but found %+v", c)
	}
	if c := conditionOf(item, "Ready"); c.Status != v1alpha1.ConditionTrue {
		t.Errorf("expected the item to be ready, but found %+v", c)
	}
	asked := h.server.asked(item, preReconcile)
	if len(asked) != 1 || asked[0].FormFactor.Name != "manifest" || asked[0].Object.UID != item.UID || len(asked[0].Children) != 2 {
		t.Errorf("expected one request, for both objects, but found %s", marshal(t, asked))
	}
}

// reportCondition: a condition that the hook declares is Unknown until it is reported, and counts for Ready. What else the hook changes in
// the item does not count.
func reportCondition(t *testing.T, h *httpHooked) {
	t.Helper()
	silent := carryOut(t, h.newItem("silent", nil), v1alpha1.DeployItemPhaseSucceeded)
	if c := conditionOf(silent, checkedCondition); c.Status != v1alpha1.ConditionUnknown {
		t.Errorf("expected the condition to be Unknown, but found %+v", c)
	}
	h.server.answer("reporting", func(_ context.Context, w http.ResponseWriter, r *hookRequest) {
		r.Object.Labels = map[string]string{"changed": "true"}
		r.Object.Spec.Timeout = "1s"
		r.Object.Status.Phase, r.Object.Status.JobID, r.Object.Status.JobIDFinished = v1alpha1.DeployItemPhaseFailed, "other", "other"
		r.Object.Status.Conditions = []v1alpha1.Condition{
			{Type: checkedCondition, Status: v1alpha1.ConditionFalse, Reason: "Unchecked", Message: "nobody has checked it"},
			{Type: "Undeclared", Status: v1alpha1.ConditionTrue, Reason: "Any", Message: "any"},
		}
		respondWith(w, r.Object, nil)
	})
	item := carryOut(t, h.newItem("reporting", nil), v1alpha1.DeployItemPhaseSucceeded)
	if c := conditionOf(item, checkedCondition); c.Status != v1alpha1.ConditionFalse || c.Reason != "Unchecked" {
		t.Errorf("expected the condition that the hook has reported, but found %+v", c)
	}
	if c := conditionOf(item, "Ready"); c.Status != v1alpha1.ConditionFalse {
		t.Errorf("expected the item not to be ready, but found %+v", c)
	}
	if conditionOf(item, "Undeclared").Type != "" || len(item.Labels) != 0 || item.Spec.Timeout != "" {
		t.Errorf("the hook has changed what is not its own: %s", marshal(t, item))
	}
}

// takeTurns: the hook of a plugin comes first, then Render, the HTTP hook, the deployer with what that has answered, and the last hook.
func takeTurns(t *testing.T, h *httpHooked) {
	t.Helper()
	h.server.answer("turns", func(_ context.Context, w http.ResponseWriter, r *hookRequest) {
		if err := h.file.Add(trace.New("hook", r.Phase, r.Object)); err != nil {
			t.Error(err)
		}
		respondWith(w, nil, labelled(r.Children))
	})
	child := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c", "namespace": "n"}}
	item := carryOut(t, h.newItem("turns", map[string]any{"children": map[string]any{"first": child}}), v1alpha1.DeployItemPhaseSucceeded)
	h.waitCount(item, string(hook.End), 1)

	steps, given := h.stepsFrom(item, string(hook.BeforeReconcile))
	want := []string{"tracer BeforeReconcile", "tracer Render", "hook pre-reconcile", "tracer Reconcile", "tracer End"}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if !strings.Contains(given, `"hooked":"true"`) {
		t.Errorf("the deployer was not given what the hook has answered: %s", given)
	}
}

// stepsFrom are the steps of an item from one of them to the first End, and the children that the deployer was given for Reconcile.
func (h *traced) stepsFrom(item *v1alpha1.DeployItem, first string) (steps []string, children string) {
	h.t.Helper()
	for _, r := range h.records() {
		if r.Item != item.Namespace+"/"+item.Name || len(steps) == 0 && r.Step != first {
			continue
		}
		steps = append(steps, r.By+" "+r.Step)
		if r.Step == "Reconcile" {
			children = string(marshal(h.t, r.Children))
		}
		if r.Step == string(hook.End) {
			break
		}
	}
	return steps, children
}

// findFinalizer: a hook that creates something on its first call can be sure to be called before the item is gone.
func findFinalizer(t *testing.T, h *httpHooked) {
	t.Helper()
	item := carryOut(t, h.newItem("finalizer", nil), v1alpha1.DeployItemPhaseSucceeded)
	if first := h.server.asked(item, preReconcile)[0].Object; !slices.Contains(first.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("the first request comes before the finalizer: %s", marshal(t, first.ObjectMeta))
	}
}

// refuseDeletion: until the hook agrees the item stays, and what it has brought.
func refuseDeletion(t *testing.T, h *httpHooked) {
	t.Helper()
	item := withTarget(newItem(h.namespace, "refused", manifestType, manifestConfig(configMap(h.namespace, "kept", "x"))), "my-target")
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	kept := client.ObjectKey{Namespace: h.namespace, Name: "kept"}
	refusals := 0
	h.server.answer("refused", func(ctx context.Context, w http.ResponseWriter, r *hookRequest) {
		if len(r.Children) != 0 {
			t.Errorf("expected no children before a deletion, but found %v", r.Children)
		}
		if err := admin.Get(ctx, kept, &corev1.ConfigMap{}); err != nil {
			t.Errorf("the hook is asked after the deployer has deleted: %v", err)
		}
		if refusals < 2 {
			refusals++
			respond(http.StatusConflict, `{"message":"not yet"}`)(ctx, w, r)
		}
	})
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)

	refused := waitLastError(t, item, "not yet")
	if !slices.Contains(refused.Finalizers, v1alpha1.Finalizer) {
		t.Errorf("expected the item to keep its finalizer, but found %v", refused.Finalizers)
	}
	waitGone(t, item)
	if n := len(h.server.asked(item, finalize)); n != 3 {
		t.Errorf("expected two refusals and a consent, but the hook was asked %d times", n)
	}
	if err := admin.Get(t.Context(), kept, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("expected the ConfigMap to be gone with the item, but found error %v", err)
	}
}

// finalizeAlone: a deletion without uninstall leaves what the deployer has brought, but what the hook has is its own.
func finalizeAlone(t *testing.T, h *httpHooked) {
	t.Helper()
	item := carryOut(t, h.newItem("kept", nil), v1alpha1.DeployItemPhaseSucceeded)
	annotate(t, item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)
	waitGone(t, item)
	h.checkNotDeleted(item)
	if n := len(h.server.asked(item, finalize)); n != 1 {
		t.Errorf("expected one request, but found %d", n)
	}
}

// askWhileWaiting: the hook is asked before each call of the deployer, and as long as it has nothing new to say nothing is written.
func askWhileWaiting(t *testing.T, h *httpHooked) {
	t.Helper()
	h.server.answer("waits", func(_ context.Context, w http.ResponseWriter, r *hookRequest) {
		r.Object.Status.Conditions = []v1alpha1.Condition{
			{Type: checkedCondition, Status: v1alpha1.ConditionTrue, Reason: "AllChecked", Message: "all objects have been checked"},
		}
		respondWith(w, r.Object, nil)
	})
	file := t.TempDir() + "/wait"
	item := start(t, h.newItem("waits", map[string]any{"waitFor": file}))
	h.waitCount(item, "Reconcile", 3)
	before := read(t, item)
	h.waitCount(item, "Reconcile", 8)
	if after := read(t, item); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the item was written although nothing has changed:\nbefore %s\nafter  %s", marshal(t, before.Status), marshal(t, after.Status))
	}
	if asked, called := len(h.server.asked(item, preReconcile)), h.count(item, "Reconcile"); asked < called {
		t.Errorf("expected a request before each of %d calls, but found %d", called, asked)
	}
	touch(t, file)
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

// countRequests: the host's metrics know of each request.
func countRequests(t *testing.T, h *httpHooked) {
	t.Helper()
	carryOut(t, h.newItem("counted", nil), v1alpha1.DeployItemPhaseSucceeded)
	for _, name := range []string{"pergola_http_hook_requests_total", "pergola_http_hook_request_duration_seconds_count"} {
		if n, err := h.Metric(t.Context(), name); err != nil || n < 1 {
			t.Errorf("expected metric %s to count requests, but found %v, error %v", name, n, err)
		}
	}
}

// leaveEnded: an item whose job was interrupted is nobody's business.
func leaveEnded(t *testing.T, h *httpHooked) {
	t.Helper()
	hungUp := make(chan struct{}, 10)
	h.server.answer("ended", func(ctx context.Context, _ http.ResponseWriter, _ *hookRequest) {
		<-ctx.Done()
		hungUp <- struct{}{}
	})
	item := start(t, h.newItem("ended", nil))
	h.server.waitAsked(t, item, preReconcile, 1)
	interrupted := interrupt(t, item, item.Status.JobID)
	waitClosed(t, "the host to hang up", hungUp)
	checkInterruption(t, interrupted)
	if n := len(h.server.asked(item, preReconcile)); n != 1 {
		t.Errorf("expected one request, but found %d", n)
	}
}
