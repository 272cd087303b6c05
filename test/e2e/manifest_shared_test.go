package e2e

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestTwoItemsManageOneObject: the last job wins, and says so. Who has lost the object leaves it to the other.
func TestTwoItemsManageOneObject(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	shared := func(by string) map[string]any { return configMapWith(namespace, "shared", map[string]any{"by": by}) }
	newSharer := func(name string) *v1alpha1.DeployItem {
		return withTarget(newItem(namespace, name, manifestType, configWith(t, nil, shared(name))), "my-target")
	}
	mustHave := func(by string) {
		t.Helper()
		found := live(t, shared(""))
		if found == nil {
			t.Fatalf("expected the object of the item %q, but it is not there", by)
		}
		value, _, _ := unstructured.NestedString(found.Object, "data", "by")
		if label := found.GetLabels()["pergola.dev/deployitem"]; value != by || label != namespace+"."+by {
			t.Errorf("expected the object to be that of the item %q, but found data of %q and the label %q", by, value, label)
		}
	}

	first := carryOut(t, newSharer("first"), v1alpha1.DeployItemPhaseSucceeded)
	second := carryOut(t, newSharer("second"), v1alpha1.DeployItemPhaseSucceeded)
	mustHave("second")
	mustMention(t, "the event", waitEvent(t, second, "TakenOver").Note, "ConfigMap "+namespace+"/shared", namespace+".first")

	first = carryOutAgain(t, first, v1alpha1.DeployItemPhaseSucceeded)
	mustHave("first")
	mustMention(t, "the event", waitEvent(t, first, "TakenOver").Note, namespace+".second")

	t.Log("the deletion of the item that has lost the object leaves it alone")
	deleteObject(t, second)
	setJob(t, second)
	waitGone(t, second)
	mustHave("first")
	mustMention(t, "the event", waitEvent(t, second, "LeftOnTarget").Note, "ConfigMap "+namespace+"/shared", "first")

	t.Log("the deletion of the item that has it deletes it, although another one names it, whose next job makes it again")
	third := carryOut(t, newSharer("third"), v1alpha1.DeployItemPhaseSucceeded)
	deleteObject(t, third)
	setJob(t, third)
	waitGone(t, third)
	if live(t, shared("")) != nil {
		t.Error("expected the object to go with its item")
	}
	first = carryOutAgain(t, first, v1alpha1.DeployItemPhaseSucceeded)
	mustHave("first")
	if c := conditionOf(first, "Drifted"); !strings.Contains(c.Message, "was missing") {
		t.Errorf("expected the item to tell that its object was missing, but found %+v", c)
	}
}
