package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/sdk"
)

// maxChangeObject bounds the name of what is changed, as the host does.
const maxChangeObject = 1 << 10

// checkDiff asks what a job of each case would change, before anything is deployed.
func (e *examination) checkDiff(ctx context.Context) {
	e.pass(RuleDiffChanges, RuleDiffSame)
	for _, c := range e.cases {
		const name = "Diff"
		first, ok := e.diff(ctx, &c, name, nil)
		if !ok {
			continue
		}
		second, ok := e.diff(ctx, &c, name, nil)
		if ok && !slices.EqualFunc(first, second, sameChange) {
			e.breaks(RuleDiffSame, "%s: the answer was %s at first and %s afterwards", c.where(name), changeNames(first), changeNames(second))
		}
	}
}

// diffDeployed asks for the item of the case once more when it is deployed. What is there then may change at any time, and the answer with it.
func (t *trial) diffDeployed(ctx context.Context, saved json.RawMessage) {
	if noDiff(t.examination) == "" {
		t.diff(ctx, &t.c, "Diff after success", saved)
	}
}

// diff asks what a job would change, and checks the answer.
func (e *examination) diff(ctx context.Context, c *Case, name string, saved json.RawMessage) (changes []sdk.Change, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	call := e.asHost(c.Call.with(saved))
	changes, err := e.plugin.Diff(ctx, call)
	if status.Code(err) == codes.Unimplemented {
		return nil, false // it breaks another rule
	}
	if err != nil {
		e.breaks(RuleDiffChanges, "%s: expected changes, but found: %v", c.where(name), err)
		return nil, false
	}
	e.checkChanges(c.where(name), changes)
	return changes, true
}

func (e *examination) checkChanges(where string, changes []sdk.Change) {
	for i, change := range changes {
		if change.Object == "" || len(change.Object) > maxChangeObject {
			e.breaks(RuleDiffChanges, "%s: change %d names its object with %d bytes; expected 1 to %d", where, i, len(change.Object), maxChangeObject)
		}
		if !slices.Contains(sdk.Actions(), change.Action) {
			e.breaks(RuleDiffChanges, "%s: change %d has the action %s; expected one of %q", where, i, quoted(string(change.Action)), sdk.Actions())
		}
		if !objectOrEmpty(change.Before) || !objectOrEmpty(change.After) {
			e.breaks(RuleDiffChanges, "%s: the states of change %d are not both a JSON object or empty", where, i)
		}
	}
}

func objectOrEmpty(document json.RawMessage) bool {
	var object map[string]json.RawMessage
	return len(document) == 0 || json.Unmarshal(document, &object) == nil && object != nil
}

func sameChange(a, b sdk.Change) bool {
	return a.Object == b.Object && a.Action == b.Action && a.Note == b.Note && bytes.Equal(a.Before, b.Before) && bytes.Equal(a.After, b.After)
}

// changeNames are the beginnings of what is changed, without the states: these are none of a report's business.
func changeNames(changes []sdk.Change) string {
	names := make([]string, 0, len(changes))
	for _, change := range changes {
		names = append(names, string(change.Action)+" "+change.Object)
	}
	text, err := json.Marshal(names)
	if err != nil {
		return err.Error()
	}
	return quoted(string(text))
}
