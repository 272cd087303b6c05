package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// longestPoll is the pause between the polls of a job that waits for long.
const longestPoll = 15 * time.Second

// TestReadinessWakesTheJob: a job that has waited for so long that it polls every 15 seconds goes on when the object becomes ready.
func TestReadinessWakesTheJob(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	put(t, definitionOf("Poppy"))
	waitEstablished(t, "Poppy")
	poppy := resourceOf("Poppy", namespace, "red")
	put(t, poppy)
	setReady(t, poppy, "False")
	item := withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, poppy)), "my-target")
	item.Spec.Timeout = v1alpha1.NoDuration
	create(t, item)
	job := setJob(t, item)
	item = waitReconciling(t, item, "Poppy "+namespace+"/red")

	// The job becomes older than it is; the poll that comes then finds that the next one has time.
	item = patchStatus(t, item, map[string]any{"transitionTimes": map[string]any{"initTime": v1alpha1.NewTime(time.Now().Add(-time.Hour))}})
	mark := auditMark(t)
	var polled time.Time
	polls := func() (n int) {
		for _, r := range requestsSince(t, mark, namespace) {
			if strings.HasPrefix(r.UserAgent, "pergola-manifest") && r.Verb == "get" && r.ObjectRef.Resource == "poppys" {
				n++
			}
		}
		return n
	}
	eventually(t, "the job to poll", func(context.Context) (string, error) {
		if polled = time.Now(); polls() == 0 {
			return "it has not", nil
		}
		return "", nil
	})

	before := polls()
	setReady(t, poppy, "True")
	if item = waitFinished(t, item, job); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Fatalf("expected success, but found %s", describe(item))
	}
	took, between := time.Since(polled), polls()-before
	t.Logf("finished %s after the last poll, with %d more", took.Round(time.Millisecond), between)
	if took > longestPoll/2 {
		t.Errorf("expected the job to be woken long before the next poll, which is due after %s, but it has taken %s", longestPoll, took)
	}
	if between > 2 { // one that was due, and the one that finds it ready
		t.Errorf("expected the job to look at the object when it has changed and not before, but it did so %d times", between)
	}
}

// setReady sets the condition of a resource, as its controller does.
func setReady(t *testing.T, manifest map[string]any, status string) {
	t.Helper()
	o := (&unstructured.Unstructured{Object: manifest}).DeepCopy()
	patch := marshal(t, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Ready", "status": status, "reason": "Tested", "message": "says the test", "lastTransitionTime": v1alpha1.Now(),
	}}}})
	if err := admin.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatalf("set condition: %v", err)
	}
}
