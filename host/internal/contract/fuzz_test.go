package contract_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// FuzzDeployItem carries any deploy item that can be read through its life: nothing panics, each action has its effect,
// and the item comes to an end.
func FuzzDeployItem(f *testing.F) {
	for _, item := range []*v1alpha1.DeployItem{
		newItem(),
		newItem(deleted, hasFinalizer),
		newItem(underWay, timeout("1s")),
		newItem(queued(0), asks(v1alpha1.OperationAbort)),
		newItem(underWay, crashed(2)),
		newItem(finished(succeeded), asks(v1alpha1.OperationForceReconcile)),
		newItem(deleted, failedWith(contract.OperationResolve, contract.ReasonTargetNotFound)),
		newItem(underWay, accepts(v1alpha1.OperationAbort)),
	} {
		raw, err := json.Marshal(item)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"status":{"jobID":"a","lastErrors":[null],"conditions":[{"type":"Ready"},{"type":"Ready"},{}],` +
		`"transitionTimes":{"initTime":["x"]}}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"host.pergola.dev/operation":` +
		`"{\"operation\":\"abort\",\"jobID\":\"a\",\"until\":null}"}},"status":{"jobID":"a"}}`))
	f.Add([]byte(`{"metadata":{"annotations":{"host.pergola.dev/operation":"null"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		item := &v1alpha1.DeployItem{}
		if json.Unmarshal(raw, item) != nil {
			return // no deploy item
		}
		var actions []contract.Action
		for range 8 {
			if crashes := contract.Crashes(item); crashes < 0 {
				t.Fatalf("%g crashes", crashes)
			}
			decision := contract.Decide(item, noon)
			actions = append(actions, decision.Action)
			if decision.Action == contract.Nothing || decision.Action == contract.Restart {
				if item.Status.JobID != item.Status.JobIDFinished {
					t.Fatalf("nothing is done for a job: %v", actions)
				}
				return
			}
			act(item, decision)
		}
		t.Fatalf("the item does not come to an end: %v", actions)
	})
}

// act does what was decided, and lets the deployer fail once and then succeed.
func act(item *v1alpha1.DeployItem, decision contract.Decision) {
	switch decision.Action {
	case contract.Accept:
		contract.AcceptOperation(item, "own", time.Minute, noon)
	case contract.Start:
		contract.SetJob(item, "own-"+decision.JobID, noon)
		if decision.JobID != "" {
			contract.SetJob(item, decision.JobID, noon)
		}
		contract.Begin(item, decision.Deletion, deployer, noon)
		item.Finalizers = slices.DeleteFunc(item.Finalizers, func(f string) bool { return f == v1alpha1.Finalizer })
	case contract.PickUp:
		contract.Begin(item, decision.Deletion, deployer, noon)
		contract.NoteCrashes(item, contract.Crashes(item)+1, noon)
		contract.Retry(item, contract.Error{Message: "refused"}, noon)
	case contract.SucceedUnchanged:
		contract.FinishUnchanged(item, deployer, noon)
	case contract.TimedOut:
		contract.Fail(item, decision.Deletion, contract.TimeoutError(item, ""), noon)
	case contract.Repair:
		contract.EndReplaced(item, decision.Deletion, noon)
	case contract.EndedElsewhere:
		contract.FinishConditions(item, noon)
	case contract.GiveUp:
		contract.EndAborted(item, decision.Deletion, deployer, noon)
	case contract.Abort:
		contract.Fail(item, decision.Deletion, contract.AbortedError(""), noon)
	default:
		contract.Succeed(item, noon)
	}
}
