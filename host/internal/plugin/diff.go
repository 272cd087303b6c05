package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// maxChangeObject bounds the name of what is changed, which is made of the names of the object, its kind and its
// namespace.
const maxChangeObject = 1 << 10

// Diff is what a job would change. Exactly one of Changes and Errors counts: the Errors, if there are any.
type Diff struct {
	// Changes name an object each, and are in the order in which the job would make them. Their actions are those of the
	// sdk, and their states are JSON objects or absent.
	Changes []sdk.Change
	Errors  []Error
}

// Diff asks what a job would change, without changing it. It needs Capabilities.Diff. It blocks until the plugin has
// answered, ctx has ended, or the deadline of the call has passed. The error is as with Call.
func (p *Plugin) Diff(ctx context.Context, c Call) (*Diff, error) {
	out, err := askAbout(ctx, p, c, func(ctx context.Context, client deployerv1.DeployerServiceClient,
		start *deployerv1.Start) (*deployerv1.DiffResponse, error) {
		return client.Diff(ctx, &deployerv1.DiffRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.DiffResponse_Failed:
		return &Diff{Errors: errorsFromWire(outcome.Failed.GetErrors())}, nil
	case *deployerv1.DiffResponse_Changes:
		changes, err := changesFromWire(outcome.Changes.GetChanges())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Diff{Changes: changes}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Diff says neither changes nor failed", ErrProtocol)
	}
}

func changesFromWire(in []*deployerv1.Change) ([]sdk.Change, error) {
	changes := make([]sdk.Change, 0, len(in))
	for i, change := range in {
		object := change.GetObject()
		if object == "" || len(object) > maxChangeObject || !utf8.ValidString(object) {
			return nil, fmt.Errorf("the object %q of its change %d is empty, longer than %d bytes or not UTF-8",
				cut(object, maxText), i, maxChangeObject)
		}
		action := sdk.Action(change.GetAction())
		if !slices.Contains(sdk.Actions(), action) {
			return nil, fmt.Errorf("its change of %q has the action %q; expected one of %q", cut(object, maxText),
				cut(string(action), maxText), sdk.Actions())
		}
		before, err := stateFromWire(change.GetBefore())
		if err != nil {
			return nil, fmt.Errorf("its change of %q: the state before it: %w", cut(object, maxText), err)
		}
		after, err := stateFromWire(change.GetAfter())
		if err != nil {
			return nil, fmt.Errorf("its change of %q: the state after it: %w", cut(object, maxText), err)
		}
		changes = append(changes, sdk.Change{Object: object, Action: action, Before: before, After: after,
			Note: bounded(change.GetNote())})
	}
	return changes, nil
}

// stateFromWire checks the state of an object; nil for none. What is wrong is told without any of it: it is somebody's
// object.
func stateFromWire(in []byte) (json.RawMessage, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if !json.Valid(in) || !utf8.Valid(in) || !bytes.HasPrefix(bytes.TrimLeft(in, " \t\r\n"), []byte("{")) {
		return nil, errors.New("expected a JSON object")
	}
	return in, nil
}
