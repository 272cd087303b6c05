package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// noteAnnotation is where the host notes the operation that it has accepted last.
const noteAnnotation = "host.pergola.dev/operation"

// ask asks for an operation on an item.
func ask(t *testing.T, item *v1alpha1.DeployItem, operation string) {
	t.Helper()
	annotate(t, item, v1alpha1.OperationAnnotation, operation)
}

// note is the part of the host's note of an operation that matters to others.
type note struct{ Operation, JobID string }

func noteOf(t *testing.T, item *v1alpha1.DeployItem) note {
	t.Helper()
	var n note
	if err := json.Unmarshal([]byte(item.Annotations[noteAnnotation]), &n); err != nil {
		t.Fatalf("annotation %s: %v in %q", noteAnnotation, err, item.Annotations[noteAnnotation])
	}
	return n
}

// checkNoted checks that there was no version of the item in which the operation is neither asked for nor noted.
func checkNoted(t *testing.T, versions []*v1alpha1.DeployItem, operation string) {
	t.Helper()
	asked := slices.IndexFunc(versions, func(i *v1alpha1.DeployItem) bool { return i.Annotations[v1alpha1.OperationAnnotation] == operation })
	if asked < 0 {
		t.Fatalf("no version of %d asks for the operation", len(versions))
	}
	for _, version := range versions[asked:] {
		if version.Annotations[v1alpha1.OperationAnnotation] == "" && noteOf(t, version).Operation != operation {
			t.Errorf("in version %s the operation is neither asked for nor noted", version.ResourceVersion)
		}
	}
}

func TestOperationOnFinishedItem(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace := newNamespace(t)
	finished := map[string]string{} // version by name
	for _, operation := range []string{v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile, v1alpha1.OperationForceReconcile} {
		for _, onlyOnChange := range []bool{false, true} {
			name := operation
			if onlyOnChange {
				name += "-only-on-change"
			}
			t.Run(name, func(t *testing.T) {
				item := operateOnFinished(t, newItem(namespace, name, probeType, probeConfig(t.TempDir())), operation, onlyOnChange)
				finished[name] = item.ResourceVersion
			})
		}
	}
	// What is carried out last shows that the host has nothing more to do with the others.
	carryOut(t, newItem(namespace, "last", probeType, probeConfig(t.TempDir())), v1alpha1.DeployItemPhaseSucceeded)
	for name, version := range finished {
		if item := read(t, newItem(namespace, name, probeType, "")); item.ResourceVersion != version {
			t.Errorf("item %s was written after the operation was over: %s", name, describe(item))
		}
	}
}

// operateOnFinished asks for an operation on an item whose job is finished, and returns it when it is finished again.
func operateOnFinished(t *testing.T, item *v1alpha1.DeployItem, operation string, onlyOnChange bool) *v1alpha1.DeployItem {
	t.Helper()
	item.Spec.UpdateOnChangeOnly = onlyOnChange
	dir := traceDir(t, item)
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	first := item.Status.JobID
	versions := record(t, item)

	ask(t, item, operation)
	item = waitFinishedAfter(t, item, first)

	call := "reconcile "
	if operation == v1alpha1.OperationForceReconcile {
		call = "force-reconcile "
	}
	checkCalls(t, dir, "reconcile "+first, call+item.Status.JobID)
	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected the new job to succeed, but found %s", describe(item))
	}
	if want := (note{operation, item.Status.JobID}); noteOf(t, item) != want {
		t.Errorf("expected the note %v, but found %v", want, noteOf(t, item))
	}
	checkNoted(t, versions.upTo(t, item), operation)
	if !onlyOnChange {
		return item
	}
	item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
	if n := len(calls(t, dir)); n != 2 {
		t.Errorf("expected a job without a change to be skipped after the operation as before, but found %d calls", n)
	}
	return item
}

func TestReconcileWaitsForTheJobUnderWay(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item, first := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")))
	versions := record(t, item)

	mark := auditMark(t)
	ask(t, item, v1alpha1.OperationReconcile)
	waitSeen(t, mark, item)
	if item = read(t, item); item.Annotations[v1alpha1.OperationAnnotation] == "" || item.Status.JobID != first {
		t.Errorf("expected the annotation to stay while the job is under way, but found %v, %s", item.Annotations, describe(item))
	}
	touch(t, dir+"/blockUntil")
	item = waitFinishedAfter(t, item, first)

	checkCalls(t, dir, "reconcile "+first, "reconcile "+item.Status.JobID)
	for _, version := range versions.upTo(t, item) {
		if version.Status.JobIDFinished == first {
			break
		}
		if version.Status.JobID != first || version.Annotations[noteAnnotation] != "" {
			t.Errorf("in version %s, before the job under way has ended: note %q, %s",
				version.ResourceVersion, version.Annotations[noteAnnotation], describe(version))
		}
	}
}

func TestForceReconcileReplacesTheCallUnderWay(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item, jobID := startCall(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")))
	versions := record(t, item)

	ask(t, item, v1alpha1.OperationForceReconcile)
	waitCalled(t, dir, "force-reconcile "+jobID)
	touch(t, dir+"/blockUntil")
	item = waitFinished(t, item, jobID)

	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected success, but found %s", describe(item))
	}
	checkCalls(t, dir, "reconcile "+jobID, "stopped "+jobID, "force-reconcile "+jobID)
	checkNoted(t, versions.upTo(t, item), v1alpha1.OperationForceReconcile)
}

func TestForceReconcileOfAPluginThatKnowsNone(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock")})
	namespace := newNamespace(t)
	item := newItem(namespace, "item", mockType, fmt.Sprintf(mockConfig, `,"export":{"a":1}`))
	item.Spec.UpdateOnChangeOnly = true
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: item.Status.ExportReference.Name}}
	if err := admin.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}

	ask(t, item, v1alpha1.OperationForceReconcile)
	item = waitFinishedAfter(t, item, item.Status.JobID)

	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected success, but found %s", describe(item))
	}
	if values := exports(t, item); values["a"] == nil { // only the plugin can have said so
		t.Errorf("the plugin was not called: exports %v", values)
	}
}

func TestHostIsKilledAfterItAcceptedAnOperation(t *testing.T) {
	plugins := pluginDir(t, "probe")
	unfreeze := freezer(t)
	// restart kills the host where the case says, and starts another one.
	for name, restart := range map[string]func(t *testing.T, host *testenv.Host, item *v1alpha1.DeployItem, dir string){
		"before the pick-up": func(t *testing.T, host *testenv.Host, item *v1alpha1.DeployItem, _ string) {
			waitFor(t, item, "noted", func(i *v1alpha1.DeployItem) bool { return i.Annotations[noteAnnotation] != "" })
			killAndRestart(t, host, plugins)
			unfreeze(t, item)
		},
		"in the call": func(t *testing.T, host *testenv.Host, item *v1alpha1.DeployItem, dir string) {
			unfreeze(t, item)
			waitCalled(t, dir, "force-reconcile ")
			killAndRestart(t, host, plugins)
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
			namespace, dir := newNamespace(t), t.TempDir()
			touch(t, dir+"/blockUntil")
			item := carryOut(t, newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil")), v1alpha1.DeployItemPhaseSucceeded)
			remove(t, dir+"/blockUntil")
			patchMetadata(t, item, map[string]any{"labels": map[string]any{frozenLabel: "true"}})
			ask(t, item, v1alpha1.OperationForceReconcile)

			restart(t, host, item, dir)
			noted := noteOf(t, read(t, item)).JobID
			touch(t, dir+"/blockUntil")
			item = waitFinishedAfter(t, item, item.Status.JobID)
			checkUntouched(t, item)

			if item.Status.JobID != noted {
				t.Errorf("expected the job that was noted, %s, but found %s", noted, describe(item))
			}
			// The plugin of the killed host may have heard that its call has ended.
			forced := slices.DeleteFunc(calls(t, dir)[1:], func(call string) bool { return strings.HasPrefix(call, "stopped ") })
			if jobs := slices.Compact(slices.Clone(forced)); len(jobs) != 1 || jobs[0] != "force-reconcile "+noted {
				t.Errorf("expected the plugin to be called for one forced job, %s, but found %v", noted, forced)
			}
		})
	}
}

func killAndRestart(t *testing.T, host *testenv.Host, plugins string) {
	t.Helper()
	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
}

// frozenLabel, with the value "true", keeps everybody from writing the status of an item, once there is a freezer.
const frozenLabel = "test.pergola.dev/frozen"

// freezer has the API server refuse to write the status of items that are frozen, and returns what unfreezes an item.
func freezer(t *testing.T) (unfreeze func(*testing.T, *v1alpha1.DeployItem)) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "frozen-"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{frozenLabel: "true"}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule: admissionv1.Rule{
						APIGroups: []string{v1alpha1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"deployitems/status"},
					},
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: "false"}},
		},
	}
	create(t, policy)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	create(t, binding)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(admin.Delete(ctx, binding), admin.Delete(ctx, policy)); err != nil {
			t.Error(err)
		}
	})
	item := newItem(newNamespace(t), "frozen", "example.org/nobody-serves-this", mockSucceeds)
	item.Labels = map[string]string{frozenLabel: "true"}
	create(t, item)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`))
	eventually(t, "items to freeze", func(ctx context.Context) (string, error) {
		err := admin.Status().Patch(ctx, item.DeepCopy(), patch, client.DryRunAll)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return "", nil
		}
		return "the status can be written", err
	})
	return func(t *testing.T, item *v1alpha1.DeployItem) {
		t.Helper()
		patchMetadata(t, item, map[string]any{"labels": map[string]any{frozenLabel: nil}})
	}
}

func TestUnknownOperation(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := carryOut(t, newItem(namespace, "item", probeType, probeConfig(dir)), v1alpha1.DeployItemPhaseSucceeded)

	ask(t, item, "explode")
	event := waitEvent(t, item, "UnknownOperation")
	if event.Type != corev1.EventTypeWarning || !strings.Contains(event.Note, `"explode"`) {
		t.Errorf("expected a warning that names the operation, but found %s %q", event.Type, event.Note)
	}
	for range 2 {
		item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
	}
	if n := len(calls(t, dir)); n != 3 || item.Annotations[v1alpha1.OperationAnnotation] != "explode" {
		t.Errorf("expected three calls, and the annotation to stay, but found %d calls and %v", n, item.Annotations)
	}
	last := carryOut(t, newItem(namespace, "last", probeType, probeConfig(t.TempDir())), v1alpha1.DeployItemPhaseSucceeded)
	waitEvent(t, last, "Succeeded") // events keep their order
	checkEvents(t, item, map[string]int{"UnknownOperation": 1, "PickedUp": 3, "Succeeded": 3})
}

// remove removes a file.
func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// waitFinishedAfter waits until another job than the one before is finished, and no operation asked for, and returns the item.
func waitFinishedAfter(t *testing.T, item *v1alpha1.DeployItem, before string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, "finished with another job", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobID != before && i.Status.JobIDFinished == i.Status.JobID && i.Annotations[v1alpha1.OperationAnnotation] == ""
	})
}

// waitSeen waits until the host has read the item since a mark in the audit log.
func waitSeen(t *testing.T, mark int64, item *v1alpha1.DeployItem) {
	t.Helper()
	eventually(t, "the host to look at the item", func(context.Context) (string, error) {
		for _, r := range requestsSince(t, mark, item.Namespace) {
			if r.Verb == "get" && r.ObjectRef.Resource == "deployitems" && r.ObjectRef.Name == item.Name {
				return "", nil
			}
		}
		return "it has not", nil
	})
}

// versions are all versions of an item since the record was begun.
type versions struct {
	mu   sync.Mutex
	seen []*v1alpha1.DeployItem
}

// record begins to record the versions of an item.
func record(t *testing.T, item *v1alpha1.DeployItem) *versions {
	t.Helper()
	watcher, err := controlPlane.Client()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := watcher.Watch(t.Context(), &v1alpha1.DeployItemList{},
		client.InNamespace(item.Namespace), client.MatchingFields{"metadata.name": item.Name})
	if err != nil {
		t.Fatal(err)
	}
	v := &versions{}
	var reading sync.WaitGroup
	reading.Go(func() {
		for event := range stream.ResultChan() {
			if version, ok := event.Object.(*v1alpha1.DeployItem); ok {
				v.mu.Lock()
				v.seen = append(v.seen, version)
				v.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		stream.Stop()
		reading.Wait()
	})
	return v
}

// upTo waits until the version of an item is recorded, and returns what is.
func (v *versions) upTo(t *testing.T, item *v1alpha1.DeployItem) []*v1alpha1.DeployItem {
	t.Helper()
	var seen []*v1alpha1.DeployItem
	eventually(t, "the record to be complete", func(context.Context) (string, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		last := slices.IndexFunc(v.seen, func(version *v1alpha1.DeployItem) bool { return version.ResourceVersion == item.ResourceVersion })
		if last < 0 {
			return fmt.Sprintf("%d versions, without the last", len(v.seen)), nil
		}
		seen = slices.Clone(v.seen[:last+1])
		return "", nil
	})
	return seen
}
