package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	counterType  = "test.pergola.dev/counter"
	manifestType = "landscaper.gardener.cloud/kubernetes-manifest"
	foreignType  = "test.pergola.dev/foreign"

	holdFinalizer = "test.pergola.dev/hold"
	fickleContext = "fickle"
)

// ok reports whether a request did not meet another one, which happens. It fails the test if it met anything else.
func (e *engine) ok(err error) bool {
	e.t.Helper()
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		e.t.Fatal(err)
	}
	return err == nil
}

func (e *engine) get(name string) (*v1alpha1.DeployItem, bool) {
	item := &v1alpha1.DeployItem{}
	err := e.admin.Get(e.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, item)
	return item, e.ok(err)
}

// newItem returns a deploy item as a Landscaper creates it, with its annotations.
func newItem(name string, itemType v1alpha1.DeployItemType, target string, config map[string]any) *v1alpha1.DeployItem {
	raw, err := json.Marshal(config)
	if err != nil {
		panic(err) //nolint:forbidigo // texts and numbers marshal
	}
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: map[string]string{
			v1alpha1.DeployerTypeAnnotation:       string(itemType),
			v1alpha1.DeployerTargetNameAnnotation: v1alpha1.NoTargetName,
		}},
		Spec: v1alpha1.DeployItemSpec{Type: itemType, Context: v1alpha1.DefaultContextName},
	}
	item.Spec.Config = &runtime.RawExtension{Raw: raw}
	if target != "" {
		item.Annotations[v1alpha1.DeployerTargetNameAnnotation] = target
		item.Spec.Target = &v1alpha1.ObjectReference{Name: target, Namespace: namespace}
	}
	return item
}

// createItem creates an item that is not there, with one of the many faces that items have.
func (e *engine) createItem(name string) bool {
	item := newItem(name, counterType, "", e.randomConfig())
	item.Spec.Timeout = e.timeout()
	item.Spec.UpdateOnChangeOnly = e.random.IntN(4) == 0
	if e.random.IntN(4) == 0 {
		item.Spec.Context = fickleContext
	}
	if e.random.IntN(2) == 0 {
		item.Finalizers = append(item.Finalizers, v1alpha1.Finalizer)
	}
	if e.random.IntN(5) == 0 {
		item.Finalizers = append(item.Finalizers, holdFinalizer)
	}
	return e.ok(e.admin.Create(e.t.Context(), item))
}

// randomConfig is a configuration by which calls do as they like. A user changes its revision, which means nothing.
func (e *engine) randomConfig() map[string]any {
	return map[string]any{
		"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": e.dir, "revision": e.random.IntN(1000),
		"random": map[string]any{"seed": e.seed, "calm": e.calmFile()},
	}
}

// calmFile lets all calls succeed once it exists.
func (e *engine) calmFile() string { return filepath.Join(e.dir, "calm") }

func (e *engine) timeout() v1alpha1.Duration {
	timeouts := []v1alpha1.Duration{"", "1s", "2s", "5s", "30s", v1alpha1.NoDuration}
	return timeouts[e.random.IntN(len(timeouts))]
}

// foreignItems are items that are no business of the host's, with what they say of their deployer; "" for nothing.
var foreignItems = map[string]string{
	"foreign-annotated": foreignType, "foreign-plain": "", "foreign-lying": counterType,
}

// createForeignItems creates them, with jobs.
func (e *engine) createForeignItems() {
	e.t.Helper()
	for name, deployer := range foreignItems {
		item := newItem(name, foreignType, "", map[string]any{"apiVersion": "test.pergola.dev/v1", "kind": "Foreign"})
		if item.Annotations[v1alpha1.DeployerTypeAnnotation] = deployer; deployer == "" {
			item.Annotations = nil
		}
		e.create(item)
		e.writeJob(item, true)
	}
}

func (e *engine) touchForeign(string) bool {
	names := slices.Sorted(maps.Keys(foreignItems))
	name := names[e.random.IntN(len(names))]
	return e.label(name) && operation("reconcile")(e, name) && e.setJobInTheMiddle(name)
}

// writeJob sets a job as Landscaper does.
func (e *engine) writeJob(item *v1alpha1.DeployItem, resetTimes bool) bool {
	now := v1alpha1.Now()
	e.jobs++
	item.Status.JobID = fmt.Sprintf("job-%d", e.jobs)
	if resetTimes {
		item.Status.JobIDGenerationTime = &now
		item.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &now}
	}
	return e.ok(e.admin.Status().Update(e.t.Context(), item))
}

// setJob sets a job for an item whose last one is finished.
func (e *engine) setJob(name string) bool {
	item, ok := e.get(name)
	return ok && item.Status.JobID == item.Status.JobIDFinished && e.writeJob(item, true)
}

func (e *engine) setJobInTheMiddle(name string) bool {
	item, ok := e.get(name)
	return ok && item.Status.JobID != item.Status.JobIDFinished && e.writeJob(item, e.random.IntN(2) == 0)
}

// interrupt ends a job that is under way, as Landscaper does.
func (e *engine) interrupt(name string) bool {
	item, ok := e.get(name)
	if !ok || item.Status.JobID == item.Status.JobIDFinished {
		return false
	}
	now := v1alpha1.Now()
	item.Status.JobIDFinished, item.Status.Phase = item.Status.JobID, v1alpha1.DeployItemPhaseFailed
	if item.DeletionTimestamp != nil {
		item.Status.Phase = v1alpha1.DeployItemPhaseDeleteFailed
	}
	item.Status.LastError = &v1alpha1.Error{
		Operation: "InterruptOperation", Reason: "InterruptOperation", Message: "operation was interrupted",
		LastTransitionTime: now, LastUpdateTime: now,
	}
	return e.ok(e.admin.Status().Update(e.t.Context(), item))
}

// change lets a user change an item.
func (e *engine) change(name string, how func(*v1alpha1.DeployItem)) bool {
	item, ok := e.get(name)
	if !ok {
		return false
	}
	how(item)
	return e.ok(e.admin.Update(e.t.Context(), item))
}

func (e *engine) changeSpec(name string) bool {
	changed := newItem(name, counterType, "", e.randomConfig())
	return e.change(name, func(item *v1alpha1.DeployItem) { item.Spec.Config = changed.Spec.Config })
}

func (e *engine) changeTimeout(name string) bool {
	timeout := e.timeout()
	return e.change(name, func(item *v1alpha1.DeployItem) { item.Spec.Timeout = timeout })
}

func (e *engine) label(name string) bool {
	value := fmt.Sprint(e.random.IntN(1000))
	return e.change(name, func(i *v1alpha1.DeployItem) { metav1.SetMetaDataLabel(&i.ObjectMeta, "touched", value) })
}

// annotate returns an action that annotates an item.
func annotate(key, value string) func(*engine, string) bool {
	return func(e *engine, name string) bool {
		return e.change(name, func(i *v1alpha1.DeployItem) { metav1.SetMetaDataAnnotation(&i.ObjectMeta, key, value) })
	}
}

func operation(name string) func(*engine, string) bool {
	return annotate(v1alpha1.OperationAnnotation, name)
}

func (e *engine) deleteItem(name string) bool {
	item, ok := e.get(name)
	return ok && e.ok(e.admin.Delete(e.t.Context(), item))
}

// toggleContext takes a Context away, or brings it back.
func (e *engine) toggleContext(string) bool {
	return e.ok(e.admin.Create(e.t.Context(), fickle())) || e.ok(e.admin.Delete(e.t.Context(), fickle()))
}

func fickle() *v1alpha1.Context {
	return &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: fickleContext, Namespace: namespace}}
}

// unrest tells what is still to be done with an item; "" for nothing. It lets go of an item, and sets a job for one
// that is being deleted if there is none.
func (e *engine) unrest(ctx context.Context, name string) (string, error) {
	item := &v1alpha1.DeployItem{}
	err := e.admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, item)
	status, asked := &item.Status, item.Annotations[v1alpha1.OperationAnnotation]
	switch {
	case err != nil:
		return "", client.IgnoreNotFound(err)
	case status.JobID != status.JobIDFinished:
		return "under way: " + state(item), nil
	case slices.Contains([]string{"reconcile", "force-reconcile", "abort"}, asked):
		return "waiting for an operation: " + state(item), nil
	case e.startPending(item):
		return "waiting for a job of the host's own: " + state(item), nil
	case controllerutil.RemoveFinalizer(item, holdFinalizer):
		e.ok(e.admin.Update(ctx, item))
		return "being let go of: " + state(item), nil
	case item.DeletionTimestamp != nil:
		e.writeJob(item, true)
		return "being deleted: " + state(item), nil
	}
	return "", nil
}

// startPending reports whether the host has accepted an operation for which it is going to set a job.
func (e *engine) startPending(item *v1alpha1.DeployItem) bool {
	var note struct {
		Operation, JobID, After string
		AfterSet                *v1alpha1.Time
	}
	text := item.Annotations[acceptedAnnotation]
	if text == "" {
		return false
	}
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		e.t.Fatal(err)
	}
	set := item.Status.JobIDGenerationTime
	return note.Operation != v1alpha1.OperationAbort && note.JobID != note.After && item.Status.JobID == note.After &&
		(note.AfterSet.IsZero() && set.IsZero() || note.AfterSet.Equal(set))
}
