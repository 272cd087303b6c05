package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// zoneA is the configuration of a host for Targets of a zone.
const zoneA = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
targetSelectors:
- labels:
  - {key: zone, operator: "=", values: [a]}
`

// createZoneTarget creates a Target in a zone. Nobody connects to it.
func createZoneTarget(t *testing.T, namespace, name, zone string) *v1alpha1.Target {
	t.Helper()
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"zone": zone}},
		Spec: v1alpha1.TargetSpec{
			Type:          "test.pergola.dev/nothing",
			Configuration: &runtime.RawExtension{Raw: []byte(`{"zone":"` + zone + `"}`)},
		},
	}
	create(t, target)
	return target
}

// startItem creates an item of a Target with a job.
func startItem(t *testing.T, namespace, name, target string) *v1alpha1.DeployItem {
	t.Helper()
	return start(t, withTarget(newItem(namespace, name, probeType, probeConfig(t.TempDir())), target))
}

// TestTargetSelectors: a host takes the items of the Targets that its configuration selects, also of those that come
// or change later, and does not write others.
func TestTargetSelectors(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe"), Config: writeConfig(t, zoneA)})
	namespace := newNamespace(t)
	moves := createZoneTarget(t, namespace, "moves", "b")
	ofMoves, early := startItem(t, namespace, "of-moves", "moves"), startItem(t, namespace, "early", "later")
	createZoneTarget(t, namespace, "a", "a")
	waitPhase(t, startItem(t, namespace, "of-a", "a"), succeeded)
	for _, item := range []*v1alpha1.DeployItem{ofMoves, early} {
		if fresh := read(t, item); fresh.ResourceVersion != item.ResourceVersion {
			t.Errorf("item %s of a Target that is not selected was written: %s", item.Name, describe(fresh))
		}
		checkEvents(t, item, nil)
	}
	createZoneTarget(t, namespace, "later", "a")
	waitPhase(t, early, succeeded)
	edit(t, moves, func() { moves.Labels["zone"] = "a" })
	waitPhase(t, ofMoves, succeeded)
}
