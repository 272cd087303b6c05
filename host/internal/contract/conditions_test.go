package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestWait(t *testing.T) {
	foreign := v1alpha1.Condition{Type: "Foreign", Status: v1alpha1.ConditionTrue, Message: "stays"}
	item := &v1alpha1.DeployItem{}
	item.Status.JobID = "job"
	item.Status.Conditions = []v1alpha1.Condition{foreign}
	contract.Begin(item, false, deployer, noon)
	waiting := func(message string, transition, update time.Duration) v1alpha1.Condition {
		return v1alpha1.Condition{
			Type: contract.ConditionReconciling, Status: v1alpha1.ConditionTrue, Reason: "Waiting", Message: message,
			LastTransitionTime: *at(transition), LastUpdateTime: *at(update),
		}
	}

	contract.Wait(item, "the moon", noon.Add(time.Second))
	failWith(t, "what is waited for is there to see", cmp.Diff([]v1alpha1.Condition{foreign, waiting("the moon", time.Second, time.Second)}, item.Status.Conditions))
	contract.Wait(item, "the moon", noon.Add(2*time.Second))
	failWith(t, "the same text changes nothing", cmp.Diff([]v1alpha1.Condition{foreign, waiting("the moon", time.Second, time.Second)}, item.Status.Conditions))
	contract.Wait(item, "the sun", noon.Add(3*time.Second))
	failWith(t, "another text is an update, no transition", cmp.Diff([]v1alpha1.Condition{foreign, waiting("the sun", time.Second, 3*time.Second)}, item.Status.Conditions))
	if item.Status.Phase != v1alpha1.DeployItemPhaseProgressing {
		t.Errorf("a job that waits is under way, but its phase is %s", item.Status.Phase)
	}

	again := item.DeepCopy()
	contract.Begin(again, false, deployer, noon)
	failWith(t, "a new job waits for nothing yet", cmp.Diff([]v1alpha1.Condition{foreign}, again.Status.Conditions))
	contract.Succeed(item, noon.Add(4*time.Second))
	failWith(t, "a finished job waits for nothing", cmp.Diff([]v1alpha1.Condition{foreign}, item.Status.Conditions))
}
