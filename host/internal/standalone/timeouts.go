package standalone

import (
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// pickupTimeoutError is the error of a job not picked up in time, perhaps for lack of its Target.
func pickupTimeoutError(timeout time.Duration, targetMissing bool) contract.Error {
	e := contract.Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
		Operation: "WaitingForPickup",
		Reason:    contract.ReasonPickupTimeout,
		Message:   fmt.Sprintf("no deployer has reconciled this deployitem within %v seconds", timeout.Seconds()),
	}
	if targetMissing {
		// The item gets a new job when the Target exists.
		e.Operation = contract.OperationResolve
		e.Message += ", probably because the referenced Target does not exist"
	}
	return e
}

// deadDeployerError is the error of a job with a dead deployer.
func deadDeployerError(item *v1alpha1.DeployItem) contract.Error {
	message := "the deployer"
	if deployer := item.Status.Deployer; deployer.Name != "" {
		message = fmt.Sprintf("the deployer %s (%s)", deployer.Name, deployer.Identity)
	}
	message += " has not ended the job in time and counts as dead"
	if waitingFor := contract.WaitingFor(item); waitingFor != "" {
		message += "; it was waiting for: " + waitingFor
	}
	return contract.Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout},
		Operation: "Timeout",
		Reason:    contract.ReasonProgressingTimeout,
		Message:   message,
	}
}

// due is the time to end the job of an item, with the reason; zero for never.
func due(item *v1alpha1.DeployItem, k known, o Options) (time.Time, need) {
	set, pickedUp := item.Status.JobIDGenerationTime, contract.PickedUp(item)
	switch {
	case set.IsZero():
	case !pickedUp && o.PickupTimeout > 0:
		return latest(set.Time, k.served, k.changed).Add(o.pickup()), needPickupTimeout
	case pickedUp && o.ProgressingTimeout > 0:
		deadline, err := contract.Deadline(item)
		if err == nil && !deadline.IsZero() { // the deployer reports a malformed timeout
			return latest(deadline, k.served).Add(o.ProgressingTimeout), needProgressingTimeout
		}
	}
	return time.Time{}, needNothing
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// pickup is the time from the job to its pick-up; zero for no limit.
func (o Options) pickup() time.Duration {
	if o.PickupTimeout <= 0 {
		return 0
	}
	return o.PickupTimeout + contract.Resolution
}
