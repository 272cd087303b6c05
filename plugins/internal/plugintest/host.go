package plugintest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// Host calls a deployer like the host: a deploy item holds the saved results of the calls.
type Host struct {
	*World

	// Plugin is the deployer. Restart replaces it.
	Plugin *sdktest.Plugin
	// Call has the parts of each call besides its item.
	Call sdktest.Call

	options HostOptions
}

// HostOptions define the deployer of a Host.
type HostOptions struct {
	// Start returns a new deployer, with clients whose transports are wrapped by the world's Requests. It is served for
	// the world's test.
	Start func(*World) *sdktest.Plugin
	// APIVersion and Kind are those of the deployer's own configuration, and Settings more of its fields.
	APIVersion, Kind string
	Settings         map[string]any
}

// NewHost returns a host in a new world. Its items have a Target for the API server.
func NewHost(t testing.TB, options HostOptions) *Host {
	t.Helper()
	h := &Host{World: New(t), options: options}
	h.Call.Target = h.Target("cluster", Config())
	h.Restart()
	return h
}

// In returns the same host for a subtest.
func (h *Host) In(t testing.TB) *Host {
	inner := *h
	inner.World = h.World.In(t)
	return &inner
}

// Restart replaces the deployer by a new one.
func (h *Host) Restart() {
	h.Helper()
	h.Plugin = h.options.Start(h.World)
	h.Configure(nil)
}

// Configure gives the deployer more fields of its own configuration, until it is restarted.
func (h *Host) Configure(fields map[string]any) {
	h.Helper()
	document := map[string]any{"apiVersion": h.options.APIVersion, "kind": h.options.Kind}
	maps.Copy(document, h.options.Settings)
	maps.Copy(document, fields)
	problems, err := h.Plugin.Configure(h.Context(), h.Marshal(document))
	if err != nil || len(problems) > 0 {
		h.Fatalf("configure the deployer: %v, %v", problems, err)
	}
}

// Item returns a deploy item of the namespace, with a job.
func (h *Host) Item(itemType landscaper.DeployItemType, name string, config any) *landscaper.DeployItem {
	item := sdktest.DeployItem(itemType, config)
	item.Namespace, item.Name, item.UID = h.Namespace, name, types.UID(uuid.NewString())
	NewJob(item)
	return item
}

// NewJob gives an item another job, as the host does.
func NewJob(item *landscaper.DeployItem) {
	item.Status.JobID, item.Status.Phase = uuid.NewString(), landscaper.DeployItemPhaseInit
	item.Status.ObservedGeneration = item.Generation
}

// Keep leaves the conditions of a result in an item, as the host does.
func Keep(item *landscaper.DeployItem, result *sdktest.Result) {
	for _, c := range result.Conditions {
		item.Status.Conditions = append(slices.DeleteFunc(item.Status.Conditions,
			func(old landscaper.Condition) bool { return old.Type == c.Type },
		), landscaper.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
	}
}

// SetConfig changes the provider configuration of an item.
func (h *Host) SetConfig(item *landscaper.DeployItem, config any) {
	h.Helper()
	item.Spec.Config = &runtime.RawExtension{Raw: h.Marshal(config)}
}

// Marshal returns a value as JSON.
func (w *World) Marshal(v any) []byte {
	w.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		w.Fatal(err)
	}
	return content
}

// Operation is a method of a deployer.
type Operation = *operation

type operation struct {
	call func(*sdktest.Plugin, context.Context, sdktest.Call) *sdktest.Result
	// fenced: it changes nothing before it has saved a provider status or had the job picked up, see sdk.LatePickUp.
	fenced bool
}

// The operations.
var (
	Reconcile      = &operation{call: (*sdktest.Plugin).Reconcile, fenced: true}
	Delete         = &operation{call: (*sdktest.Plugin).Delete}
	Abort          = &operation{call: (*sdktest.Plugin).Abort}
	ForceReconcile = &operation{call: (*sdktest.Plugin).ForceReconcile, fenced: true}
)

// CallOf is a call with an item.
func (h *Host) CallOf(item *landscaper.DeployItem) sdktest.Call {
	call := h.Call
	call.DeployItem = item
	return call
}

// Do calls an operation once. After it the item has the saved provider status, as far as no fault prevents its
// saving. The promise of sdk.LatePickUp is checked.
func (h *Host) Do(operation Operation, item *landscaper.DeployItem) *sdktest.Result {
	h.Helper()
	return h.DoCall(h.Context(), operation, h.CallOf(item))
}

// DoCall is Do with a context and a call; it replaces the OnSave of the call.
func (h *Host) DoCall(ctx context.Context, operation Operation, call sdktest.Call) *sdktest.Result {
	h.Helper()
	item := call.DeployItem
	saved := item.Status.ProviderStatus
	call.DeployItem = item.DeepCopy()
	call.OnSave = func(document json.RawMessage) error { // an empty one picks the job up
		done, heard := h.Requests.step(StepSave)
		if done && len(document) > 0 {
			saved = &runtime.RawExtension{Raw: document}
		}
		if !heard {
			return ErrStruck
		}
		return nil
	}
	end := h.Requests.begin(operation.fenced)
	result := operation.call(h.Plugin, ctx, call)
	if early := end(); len(early) > 0 {
		h.Errorf("changed before the job was picked up: %q", early)
	}
	if done, _ := h.Requests.step(StepResult); done && len(result.ProviderStatus) > 0 {
		saved = &runtime.RawExtension{Raw: result.ProviderStatus}
	}
	item.Status.ProviderStatus = saved
	return result
}

// pause is the time between two calls of a host. A deployer must accept calls before its own PollAfter.
const pause = 10 * time.Millisecond

// UntilDone calls an operation until the end of the job.
func (h *Host) UntilDone(operation Operation, item *landscaper.DeployItem) *sdktest.Result {
	h.Helper()
	return h.until(operation, item, func(result *sdktest.Result) bool { return result.InProgress == nil })
}

// Finish is UntilDone, but tries again after an error without a code, as the host does.
func (h *Host) Finish(operation Operation, item *landscaper.DeployItem) *sdktest.Result {
	h.Helper()
	return h.until(operation, item, isOver)
}

func isOver(result *sdktest.Result) bool {
	return result.Succeeded != nil || result.Failed != nil && len(result.Failed.Codes()) > 0
}

func (h *Host) until(
	operation Operation, item *landscaper.DeployItem, over func(*sdktest.Result) bool,
) *sdktest.Result {
	h.Helper()
	for deadline := time.Now().Add(Patience); ; time.Sleep(pause) {
		result := h.Do(operation, item)
		if over(result) {
			return result
		}
		if time.Now().After(deadline) {
			h.Fatalf("the job does not come to an end: %s", result)
		}
	}
}

// Disturb calls an operation until a fault has struck at the nth of its possible steps, or the job is over, and
// reports whether it has struck. If it has not, last is the job's result. A killed deployer is started again.
func (h *Host) Disturb(
	operation Operation, item *landscaper.DeployItem, n int, f Fault,
) (last *sdktest.Result, struck bool) {
	h.Helper()
	h.Requests.Strike(n, f)
	last = h.until(operation, item, func(result *sdktest.Result) bool {
		return h.Requests.hasStruck() || isOver(result)
	})
	if struck = h.Requests.Revive(); struck && f.Killed {
		h.Restart()
	}
	return last, struck
}

// MustSucceed carries out a job and fails without its success.
func (h *Host) MustSucceed(item *landscaper.DeployItem) *sdktest.Result {
	h.Helper()
	return h.mustEndWell(h.UntilDone(Reconcile, item))
}

// MustDelete is MustSucceed for a deletion.
func (h *Host) MustDelete(item *landscaper.DeployItem) *sdktest.Result {
	h.Helper()
	item.Status.Phase = landscaper.DeployItemPhaseInitDelete
	return h.mustEndWell(h.UntilDone(Delete, item))
}

func (h *Host) mustEndWell(result *sdktest.Result) *sdktest.Result {
	h.Helper()
	if result.Succeeded == nil {
		h.Fatalf("expected success, but found: %s", result)
	}
	return result
}

// MustFail checks the codes of a failure and parts of its text.
func (h *Host) MustFail(result *sdktest.Result, codes []landscaper.ErrorCode, parts ...string) {
	h.Helper()
	if result.Failed == nil {
		h.Fatalf("expected a failure, but found: %s", result)
	}
	if !slices.Equal(result.Failed.Codes(), codes) {
		h.Errorf("expected the codes %v, but found: %s", codes, result)
	}
	for _, part := range parts {
		if !strings.Contains(result.Failed.Error(), part) {
			h.Errorf("expected an error with %q, but found: %s", part, result)
		}
	}
}

// ConfigurationProblem are the codes of an error for the user to correct.
var ConfigurationProblem = []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}

// Managed returns the managed objects of a provider status, in its order.
func (w *World) Managed(status []byte) []managedresource.ObjectReference {
	w.Helper()
	var document struct {
		ManagedResources []managedresource.ManagedResourceStatus `json:"managedResources"`
	}
	if len(status) > 0 {
		if err := json.Unmarshal(status, &document); err != nil {
			w.Fatal(err)
		}
	}
	references := make([]managedresource.ObjectReference, 0, len(document.ManagedResources))
	for _, m := range document.ManagedResources {
		references = append(references, m.Resource)
	}
	return references
}
