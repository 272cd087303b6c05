package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// lateContext is a Context that tests create and delete.
const lateContext = "late"

func createContext(t *testing.T, namespace, name string) {
	t.Helper()
	create(t, &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}})
}

func deleteObject(t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Delete(t.Context(), object); err != nil {
		t.Fatalf("delete %T: %v", object, err)
	}
}

// need is an object that an item uses, and the reason of the error without it.
type need struct {
	reason string
	object func(namespace string) client.Object
}

func needs() map[string]need {
	return map[string]need{
		"Target": {reason: "NoTargetFound", object: func(namespace string) client.Object {
			return &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: "my-target", Namespace: namespace}}
		}},
		"Context": {reason: "ContextNotFound", object: func(namespace string) client.Object {
			return &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: lateContext, Namespace: namespace}}
		}},
	}
}

// deployed returns an item that is deployed, with a Target and a Context of its own, and the object of the kind that it uses.
func deployed(t *testing.T, dir string, object func(string) client.Object) (item *v1alpha1.DeployItem, used client.Object) {
	t.Helper()
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	createContext(t, namespace, lateContext)
	item = withTarget(newItem(namespace, "item", probeType, probeConfig(dir)), "my-target")
	item.Spec.Context = lateContext
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	used = object(namespace)
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(used), used); err != nil {
		t.Fatal(err)
	}
	return item, used
}

// failDeletion deletes an item after what it uses, and returns it when its deletion has failed.
func failDeletion(t *testing.T, item *v1alpha1.DeployItem, used client.Object, reason string) *v1alpha1.DeployItem {
	t.Helper()
	deleteObject(t, used)
	deleteObject(t, item)
	item = waitFinished(t, item, setJob(t, item))
	lastError := item.Status.LastError
	if item.Status.Phase != v1alpha1.DeployItemPhaseDeleteFailed || lastError == nil || lastError.Reason != reason {
		t.Fatalf("expected the deletion to fail with reason %s, but found %s", reason, describe(item))
	}
	for _, mention := range []string{used.GetName(), "Create it again", v1alpha1.DeleteWithoutUninstallAnnotation} {
		if !strings.Contains(lastError.Message, mention) {
			t.Errorf("the message does not mention %q: %q", mention, lastError.Message)
		}
	}
	return item
}

func TestDeletionWithoutWhatItNeeds(t *testing.T) {
	plugins := pluginDir(t, "probe")
	host := startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
	for kind, tc := range needs() {
		t.Run(kind+" comes back", func(t *testing.T) {
			dir := t.TempDir()
			item, used := deployed(t, dir, tc.object)
			failDeletion(t, item, used, tc.reason)
			checkUntouched(t, read(t, item)) // it is not tried again and again

			used.SetResourceVersion("")
			create(t, used)
			waitGone(t, item)
			checkCalls(t, dir, "reconcile ", "delete ")
		})
		t.Run(kind+" is given up", func(t *testing.T) {
			dir := t.TempDir()
			item, used := deployed(t, dir, tc.object)
			failDeletion(t, item, used, tc.reason)

			annotate(t, item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
			waitGone(t, item)
			checkCalls(t, dir, "reconcile ")
		})
	}
	t.Run("Target comes back while no host runs", func(t *testing.T) {
		dir, tc := t.TempDir(), needs()["Target"]
		item, used := deployed(t, dir, tc.object)
		failDeletion(t, item, used, tc.reason)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := host.Stop(ctx); err != nil {
			t.Fatal(err)
		}

		used.SetResourceVersion("")
		create(t, used)
		startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
		waitGone(t, item)
		checkCalls(t, dir, "reconcile ", "delete ")
	})
}

func TestReconcileWithoutContext(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir))
	item.Spec.Context = lateContext
	create(t, item)
	jobID := setJob(t, item)

	// Then the pause before the next try is more than six seconds.
	const times = 4
	item = waitFor(t, item, "tried several times", func(i *v1alpha1.DeployItem) bool {
		errors := i.Status.LastErrors
		return len(errors) > 0 && strings.HasSuffix(errors[len(errors)-1].Message, fmt.Sprintf(" (%d times)", times))
	})
	if len(item.Status.LastErrors) != 1 {
		t.Errorf("expected one error that is counted, but found %s", marshal(t, item.Status.LastErrors))
	}
	lastError := item.Status.LastError
	if item.Status.Phase != v1alpha1.DeployItemPhaseProgressing || lastError.Reason != "ContextNotFound" ||
		!strings.Contains(lastError.Message, namespace+"/"+lateContext) || strings.Contains(lastError.Message, "times)") {
		t.Errorf("expected a job under way with an error that names the Context, but found %s", describe(item))
	}
	next := nextTry(t, host, namespace+"/item", times)

	createContext(t, namespace, lateContext)
	waitCalled(t, dir, "reconcile "+jobID)
	if now := time.Now(); !now.Before(next) {
		t.Errorf("expected the Context to wake the job, but it went on after %v, when its next try was due", next)
	} else {
		t.Logf("the job went on %v before its next try was due", next.Sub(now))
	}
	if item = waitFinished(t, item, jobID); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected success, but found %s", describe(item))
	}
	checkCalls(t, dir, "reconcile "+jobID)
}

// nextTry is when, according to the host's log, an item that has met so many errors is tried again.
func nextTry(t *testing.T, host *testenv.Host, item string, errors int) time.Time {
	t.Helper()
	var tries []time.Time
	scanner := bufio.NewScanner(strings.NewReader(host.Log()))
	for scanner.Scan() {
		var record struct {
			DeployItem string    `json:"deployitem"`
			At         time.Time `json:"at"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &record); err == nil && record.DeployItem == item && !record.At.IsZero() {
			tries = append(tries, record.At)
		}
	}
	if len(tries) != errors {
		t.Fatalf("expected %d errors in the host's log, but found tries at %v", errors, tries)
	}
	return tries[errors-1]
}

// patchStatus changes fields of the status, and returns the item as it is then.
func patchStatus(t *testing.T, item *v1alpha1.DeployItem, fields map[string]any) *v1alpha1.DeployItem {
	t.Helper()
	patched := item.DeepCopy()
	patch := client.RawPatch(types.MergePatchType, marshal(t, map[string]any{"status": fields}))
	if err := admin.Status().Patch(t.Context(), patched, patch); err != nil {
		t.Fatalf("patch status: %v", err)
	}
	return patched
}

func patchMetadata(t *testing.T, item *v1alpha1.DeployItem, fields map[string]any) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, marshal(t, map[string]any{"metadata": fields}))
	if err := admin.Patch(t.Context(), item.DeepCopy(), patch); err != nil {
		t.Fatalf("patch metadata: %v", err)
	}
}

func annotate(t *testing.T, item *v1alpha1.DeployItem, key, value string) {
	t.Helper()
	patchMetadata(t, item, map[string]any{"annotations": map[string]any{key: value}})
}
