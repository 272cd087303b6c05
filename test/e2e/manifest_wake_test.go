package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// longestPoll is the pause between the polls of a job that waits for long.
const longestPoll = 15 * time.Second

// TestReadinessWakesTheJob: a job that has waited for so long that it polls every 15 seconds goes on when its object
// becomes ready, as the plugin watches it and wakes the host.
func TestReadinessWakesTheJob(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	item := manifestItem(namespace, "item", "my-target", unreadyDeployment(namespace))
	item.Spec.Timeout = v1alpha1.NoDuration
	create(t, item)
	job := setJob(t, item)
	item = waitFor(t, item, "waiting for its object", func(i *v1alpha1.DeployItem) bool {
		return strings.Contains(waitsFor(i), "Deployment "+namespace+"/slow")
	})

	// The job becomes older than it is; the poll that comes then finds that the next one has time.
	began := v1alpha1.NewTime(time.Now().Add(-time.Hour))
	item = patchStatus(t, item, map[string]any{"transitionTimes": map[string]any{"initTime": began}})
	mark := markAudit(t)
	var polled time.Time
	eventually(t, "the job to poll", func(context.Context) (string, error) {
		polled = time.Now()
		for _, r := range requestsSince(t, mark, namespace) {
			if strings.HasPrefix(r.UserAgent, "pergola-manifest") && r.Verb == "get" && r.ObjectRef.Resource == "deployments" {
				return "", nil
			}
		}
		return "it has not", nil
	})

	setDeploymentReady(t, client.ObjectKey{Namespace: namespace, Name: "slow"})
	if item = waitFinished(t, item, job); item.Status.Phase != succeeded {
		t.Fatalf("expected success, but found %s", describe(item))
	}
	if took := time.Since(polled); took > longestPoll/2 {
		t.Errorf("expected the job to be woken long before the next poll, but it was %s after the last one", took)
	}
}
