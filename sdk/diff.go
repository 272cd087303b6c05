package sdk

import (
	"errors"
	"fmt"
	"slices"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// Actions returns all actions.
func Actions() []Action {
	return []Action{ActionCreate, ActionUpdate, ActionRecreate, ActionDelete, ActionKeep, ActionFail}
}

// maxChangeObject bounds the name of what is changed, as the host does.
const maxChangeObject = 1 << 10

// diffToWire describes how Diff ended. A change that cannot be passed on, such as one whose secrets cannot be found because it is no JSON, is
// the deployer's mistake, and none is passed on then.
func diffToWire(res *DiffResponse, err error) *deployerv1.DiffResponse {
	var changes *deployerv1.Changes
	if err == nil {
		changes, err = changesToWire(res)
		err = internalProblem(err)
	}
	if err != nil {
		return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Failed{Failed: failedToWire("Diff", err)}}
	}
	return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: changes}}
}

func changesToWire(res *DiffResponse) (*deployerv1.Changes, error) {
	out := &deployerv1.Changes{}
	if res == nil {
		return out, nil
	}
	var errs []error
	for i, change := range res.Changes {
		wired, err := change.toWire()
		if err != nil {
			errs = append(errs, fmt.Errorf("change %d (%.64q): %w", i, change.Object, err))
		}
		out.Changes = append(out.Changes, wired)
	}
	return out, errors.Join(errs...)
}

func (c *Change) toWire() (*deployerv1.Change, error) {
	if c.Object == "" || len(c.Object) > maxChangeObject {
		return nil, fmt.Errorf("expected a name of the object of 1 to %d bytes, but it has %d", maxChangeObject, len(c.Object))
	}
	if !slices.Contains(Actions(), c.Action) {
		return nil, fmt.Errorf("there is no action %q; expected one of %q", c.Action, Actions())
	}
	before, after, err := hideSecrets(c.Before, c.After)
	if err != nil {
		return nil, err
	}
	return &deployerv1.Change{
		Object: validText(c.Object),
		Action: string(c.Action),
		Before: before,
		After:  after,
		Note:   validText(c.Note),
	}, nil
}
