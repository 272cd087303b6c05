package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	holdFinalizer = "test.pergola.dev/hold"
	fickleContext = "fickle"
)

// actor is somebody with a name in the audit log.
type actor struct {
	client.Client
}

func newActor(t *testing.T, name string) *actor {
	t.Helper()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(controlPlane.Config)
	config.UserAgent, config.WarningHandler = name, rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &actor{Client: c}
}

// ignored tells whether a write has met another one, which happens, and fails the test if it met anything else.
func (d *disorder) ignored(err error) bool {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		d.t.Fatal(err)
	}
	return err != nil
}

func (d *disorder) get(name string) (*v1alpha1.DeployItem, bool) {
	item := &v1alpha1.DeployItem{}
	err := d.user.Get(d.t.Context(), client.ObjectKey{Namespace: d.namespace, Name: name}, item)
	return item, !d.ignored(err)
}

func (d *disorder) createNamespace() {
	ctx := d.t.Context()
	d.ignored(d.user.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.namespace}}))
	d.ignored(d.user.Create(ctx, &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: d.namespace}}))
	d.ensureContext()
}

func (d *disorder) ensureContext() {
	d.ignored(d.user.Create(d.t.Context(), d.fickle()))
}

func (d *disorder) fickle() *v1alpha1.Context {
	return &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: fickleContext, Namespace: d.namespace}}
}

func (d *disorder) toggleContext(string) {
	if !d.ignored(d.user.Create(d.t.Context(), d.fickle())) {
		return
	}
	if !d.ignored(d.user.Delete(d.t.Context(), d.fickle())) {
		d.did("take the Context away")
	}
}

// create creates an item that is not there, with one of the many faces that items have.
func (d *disorder) create(name string) {
	random := map[string]any{"seed": d.seed, "dir": d.dir, "calm": filepath.Join(d.dir, "calm")}
	item := newItem(d.namespace, name, chaosType, chaosConfig(d.trace, map[string]any{"random": random}))
	item.Spec.Timeout = d.timeout()
	item.Spec.UpdateOnChangeOnly = d.random.IntN(4) == 0
	if d.random.IntN(4) == 0 {
		item.Spec.Context = fickleContext
	}
	if d.random.IntN(2) == 0 {
		item.Finalizers = append(item.Finalizers, v1alpha1.Finalizer)
	}
	if d.random.IntN(5) == 0 {
		item.Finalizers = append(item.Finalizers, holdFinalizer)
	}
	if !d.ignored(d.user.Create(d.t.Context(), item)) {
		d.did("create")
	}
}

func (d *disorder) timeout() v1alpha1.Duration {
	timeouts := []v1alpha1.Duration{"", "1s", "2s", "5s", "30s", v1alpha1.NoDuration}
	return timeouts[d.random.IntN(len(timeouts))]
}

// chaosConfig is the configuration of the plugin chaos.
func chaosConfig(trace string, fields map[string]any) string {
	fields["apiVersion"], fields["kind"], fields["trace"] = "test.pergola.dev/v1", "Chaos", trace
	out, err := json.Marshal(fields)
	if err != nil {
		panic(err) //nolint:forbidigo // texts and numbers marshal
	}
	return string(out)
}

// createForeignItems creates items that are no business of the host's, with jobs.
func (d *disorder) createForeignItems() {
	for _, name := range d.foreign {
		item := newItem(d.namespace, name, foreignType, `{"apiVersion":"test.pergola.dev/v1","kind":"Foreign"}`)
		switch {
		case strings.HasSuffix(name, "plain"):
			item.Annotations = nil
		case strings.HasSuffix(name, "lying"):
			item.Annotations[v1alpha1.DeployerTypeAnnotation] = chaosType
		}
		create(d.t, item)
		d.nextJob(item, true)
		d.ignored(d.landscaper.Status().Update(d.t.Context(), item))
	}
}

func (d *disorder) touchForeign(string) {
	name := d.foreign[d.random.IntN(len(d.foreign))]
	d.label(name)
	d.operation(name, "reconcile")
	d.setJobRudely(name, true)
}

// nextJob sets a job as Landscaper does.
func (d *disorder) nextJob(item *v1alpha1.DeployItem, resetTimes bool) {
	now := v1alpha1.Now()
	d.jobs++
	item.Status.JobID = fmt.Sprintf("job-%d", d.jobs)
	if resetTimes {
		item.Status.JobIDGenerationTime = &now
		item.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &now}
	}
}

// setJob sets a job for an item whose last one is finished.
func (d *disorder) setJob(name string) {
	item, ok := d.get(name)
	if !ok || item.Status.JobID != item.Status.JobIDFinished {
		return
	}
	d.nextJob(item, true)
	if !d.ignored(d.landscaper.Status().Update(d.t.Context(), item)) {
		d.did("set job")
	}
}

// setJobRudely sets a job even if one is under way.
func (d *disorder) setJobRudely(name string, resetTimes bool) {
	item, ok := d.get(name)
	if !ok || item.Status.JobID == item.Status.JobIDFinished {
		return
	}
	d.nextJob(item, resetTimes)
	if !d.ignored(d.landscaper.Status().Update(d.t.Context(), item)) {
		d.did("set job in the middle")
	}
}

// interrupt ends a job that is under way, as Landscaper does.
func (d *disorder) interrupt(name string) {
	item, ok := d.get(name)
	if !ok || item.Status.JobID == item.Status.JobIDFinished {
		return
	}
	now := v1alpha1.Now()
	item.Status.JobIDFinished = item.Status.JobID
	item.Status.Phase = v1alpha1.DeployItemPhaseFailed
	if item.DeletionTimestamp != nil {
		item.Status.Phase = v1alpha1.DeployItemPhaseDeleteFailed
	}
	item.Status.LastError = &v1alpha1.Error{
		Operation: "InterruptOperation", Reason: "InterruptOperation", Message: "operation was interrupted",
		LastTransitionTime: now, LastUpdateTime: now,
	}
	if !d.ignored(d.landscaper.Status().Update(d.t.Context(), item)) {
		d.did("interrupt")
	}
}

// change lets a user change an item.
func (d *disorder) change(name, what string, change func(*v1alpha1.DeployItem)) {
	item, ok := d.get(name)
	if !ok {
		return
	}
	change(item)
	if !d.ignored(d.user.Update(d.t.Context(), item)) {
		d.did(what)
	}
}

func (d *disorder) changeSpec(name string) {
	revision := d.random.IntN(1000)
	d.change(name, "change spec", func(item *v1alpha1.DeployItem) {
		var config map[string]json.RawMessage
		if err := json.Unmarshal(item.Spec.Config.Raw, &config); err != nil {
			d.t.Fatal(err)
		}
		config["revision"] = fmt.Appendf(nil, "%d", revision)
		item.Spec.Config.Raw = marshal(d.t, config)
	})
}

func (d *disorder) changeTimeout(name string) {
	timeout := d.timeout()
	d.change(name, "change timeout", func(item *v1alpha1.DeployItem) { item.Spec.Timeout = timeout })
}

func (d *disorder) label(name string) {
	value := fmt.Sprint(d.random.IntN(1000))
	d.change(name, "label", func(item *v1alpha1.DeployItem) { metav1.SetMetaDataLabel(&item.ObjectMeta, "touched", value) })
}

func (d *disorder) operation(name, operation string) {
	d.change(name, operation, func(item *v1alpha1.DeployItem) {
		metav1.SetMetaDataAnnotation(&item.ObjectMeta, v1alpha1.OperationAnnotation, operation)
	})
}

func (d *disorder) leaveBehind(name string) {
	d.change(name, "leave behind", func(item *v1alpha1.DeployItem) {
		metav1.SetMetaDataAnnotation(&item.ObjectMeta, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	})
}

func (d *disorder) delete(name string) {
	item, ok := d.get(name)
	if ok && !d.ignored(d.user.Delete(d.t.Context(), item)) {
		d.did("delete")
	}
}

// unrest tells what is still to be done with an item; "" for nothing. For an item that is being deleted it sets a job if there is
// none, and lets go of it when the host has.
func (d *disorder) unrest(ctx context.Context, name string, triggered map[string]bool) (string, error) {
	item := &v1alpha1.DeployItem{}
	err := d.landscaper.Get(ctx, client.ObjectKey{Namespace: d.namespace, Name: name}, item)
	status := &item.Status
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", err
	case item.DeletionTimestamp != nil && slices.Equal(item.Finalizers, []string{holdFinalizer}):
		controllerutil.RemoveFinalizer(item, holdFinalizer)
		d.ignored(d.landscaper.Update(ctx, item))
		return "being let go of", nil
	case status.JobID != status.JobIDFinished:
		return "under way: " + describe(item), nil
	case slices.Contains([]string{"reconcile", "force-reconcile", "abort"}, item.Annotations[v1alpha1.OperationAnnotation]):
		return "waiting for an operation: " + describe(item), nil
	case d.startPending(item):
		return "waiting for a job of the host's own: " + describe(item), nil
	case item.DeletionTimestamp != nil && !triggered[status.JobID]:
		triggered[status.JobID] = true
		d.nextJob(item, true)
		triggered[status.JobID] = d.ignored(d.landscaper.Status().Update(ctx, item))
		return "being deleted", nil
	case item.DeletionTimestamp != nil:
		return "there after its deletion has ended: " + describe(item), nil
	case status.JobID != "" && !status.Phase.IsFinal():
		return "finished without a final phase: " + describe(item), nil
	}
	return "", nil
}

// startPending tells whether the host has accepted an operation for which it is going to set a job.
func (d *disorder) startPending(item *v1alpha1.DeployItem) bool {
	var note struct {
		Operation, JobID, After string
		AfterSet                *v1alpha1.Time
	}
	text := item.Annotations["host.pergola.dev/operation"]
	if text == "" {
		return false
	}
	if err := json.Unmarshal([]byte(text), &note); err != nil {
		d.t.Fatal(err)
	}
	sameTime := note.AfterSet.IsZero() && item.Status.JobIDGenerationTime.IsZero() || note.AfterSet.Equal(item.Status.JobIDGenerationTime)
	return note.Operation != v1alpha1.OperationAbort && note.JobID != note.After && item.Status.JobID == note.After && sameTime
}
