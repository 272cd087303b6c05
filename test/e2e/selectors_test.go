package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestTargetSelectors(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe"), Config: writeConfig(t, zoneA)})
	namespace := newNamespace(t)
	createZoneTarget(t, namespace, "a", "a")
	b := createZoneTarget(t, namespace, "b", "b")

	ofB := startItem(t, namespace, "of-b", "b")
	// Its metadata does not tell the Target.
	bare := withTarget(newItem(namespace, "bare", probeType, probeConfig(t.TempDir())), "b")
	delete(bare.Annotations, v1alpha1.DeployerTargetNameAnnotation)
	bare = start(t, bare)
	early := startItem(t, namespace, "early", "later")

	waitPhase(t, start(t, newItem(namespace, "of-none", probeType, probeConfig(t.TempDir()))), succeeded)
	waitPhase(t, startItem(t, namespace, "of-a", "a"), succeeded)
	for _, item := range []*v1alpha1.DeployItem{ofB, bare, early} {
		checkZoneUntouched(t, item)
	}

	createZoneTarget(t, namespace, "later", "a")
	waitPhase(t, early, succeeded)

	// A Target that moves into the zone brings its items along.
	checkZoneUntouched(t, ofB)
	b.Labels["zone"] = "a"
	if err := admin.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	waitPhase(t, ofB, succeeded)
	waitPhase(t, bare, succeeded)

	// One that leaves it takes them away.
	b.Labels["zone"] = "b"
	if err := admin.Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	// What is carried out for another Target of later shows that the host has heard of it: watches keep the order.
	createZoneTarget(t, namespace, "witness", "a")
	waitPhase(t, startItem(t, namespace, "of-witness", "witness"), succeeded)
	jobID := setJob(t, ofB)
	checkUntouched(t, read(t, ofB))
	interrupt(t, ofB, jobID) // the hosts of other tests take all zones
}

// checkZoneUntouched checks that an item was not written, and has no events.
func checkZoneUntouched(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	fresh := &v1alpha1.DeployItem{}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(item), fresh); err != nil {
		t.Fatal(err)
	}
	if fresh.ResourceVersion != item.ResourceVersion {
		t.Errorf("item %s of a Target that is not selected was written: %s", item.Name, describe(fresh))
	}
	checkEvents(t, item, nil)
}
