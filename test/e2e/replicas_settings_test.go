package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestLockPrefix starts hosts with the prefix that the documentation has for an example.
func TestLockPrefix(t *testing.T) {
	f := newFleet(t, "lockPrefix: pergola-")
	f.start(2)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	item := counts.newItem("item", 0, 0, 0)
	carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	lock := &v1alpha1.SyncObject{}
	key := client.ObjectKey{Namespace: item.Namespace, Name: "pergola-counter-" + string(item.UID)}
	eventually(t, "the lock to be given back", func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, key, lock); err != nil || lock.Spec.PodName != "" {
			return "held by " + lock.Spec.PodName, err
		}
		return "", nil
	})
	if lock.Spec.Prefix != "pergola-counter" || lock.Spec.Kind != "DeployItem" || lock.Spec.Name != item.Name {
		t.Errorf("expected the lock of plugin counter on %s with the prefix, but found %+v", item.Name, lock.Spec)
	}
}

// TestStandaloneReplicas: one of the replicas sets jobs, and when it is gone another one does, whether it has more plugins or not.
func TestStandaloneReplicas(t *testing.T) {
	f := newFleet(t, "timeouts: {lease: 1m}")
	f.options.Standalone = true
	withCounter := f.options.PluginDir
	f.options.PluginDir = pluginDir(t, "probe") // serves nothing that is asked for here
	f.start(1)
	f.options.PluginDir = withCounter
	f.start(2)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	for i := range 3 {
		item := counts.newItem(fmt.Sprintf("item-%d", i), 0, 0, 0)
		create(t, item)
		waitFor(t, item, "carried out", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded })
		if begun := counts.begun(item); len(begun) != 1 {
			t.Errorf("expected one call for item %s, but found %+v", item.Name, begun)
		}
		if i < 2 { // the first time one with the plugin, the second time the one without: the last one has to do it all
			gone := f.live[len(f.live)-1-i]
			f.kill(gone)
			f.deletePod(gone)
		}
	}
}

// TestAutoscalersAreLogged: by one replica, with the fields of Landscaper.
func TestAutoscalersAreLogged(t *testing.T) {
	f := newFleet(t)
	create(t, &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "pergola"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "pergola"}, MaxReplicas: 3,
		},
	})
	r := f.start(1)[0]
	line := fmt.Sprintf(`"msg":"HPA Statistics","logger":"controllers.landscaper-monitoring","resource":"%s/pergola","currentReplicas":0`, f.namespace)
	eventually(t, "the statistics of the autoscaler", func(context.Context) (string, error) {
		if !strings.Contains(r.Log(), line) {
			return "no line with " + line, nil
		}
		return "", nil
	})
}
