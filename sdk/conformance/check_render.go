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

// checkRender asks for the desired objects of each case, before anything is deployed.
func (e *examination) checkRender(ctx context.Context) {
	e.pass(RuleRenderChildren, RuleRenderSame)
	for _, c := range e.cases {
		first, err := e.render(ctx, &c)
		if status.Code(err) == codes.Unimplemented {
			return // it breaks another rule
		}
		if err != nil {
			e.breaks(RuleRenderChildren, "%s: expected desired objects, but found: %v", c.where("Render"), err)
			continue
		}
		e.checkChildren(c.where("Render"), first)
		second, err := e.render(ctx, &c)
		if err != nil || !slices.EqualFunc(first, second, sameChild) {
			e.breaks(RuleRenderSame, "%s: the answer was %s at first and %s (error %v) afterwards",
				c.where("Render"), childNames(first), childNames(second), err)
		}
	}
}

func (e *examination) render(ctx context.Context, c *Case) ([]sdk.Child, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	call := e.asHost(c.Call.with(nil))
	return e.plugin.Render(ctx, call)
}

func (e *examination) checkChildren(where string, children []sdk.Child) {
	for i, child := range children {
		if child.Name == "" {
			e.breaks(RuleRenderChildren, "%s: desired object %d has no name", where, i)
		}
		if slices.ContainsFunc(children[:i], func(other sdk.Child) bool { return other.Name == child.Name }) {
			e.breaks(RuleRenderChildren, "%s: two desired objects have the name %s", where, quoted(child.Name))
		}
		var meta struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := json.Unmarshal(child.Object, &meta); err != nil {
			e.breaks(RuleRenderChildren, "%s: the desired object %s is no JSON object: %v", where, quoted(child.Name), err)
		} else if meta.APIVersion == "" || meta.Kind == "" {
			e.breaks(RuleRenderChildren, "%s: the desired object %s has apiVersion %s and kind %s; it needs both",
				where, quoted(child.Name), quoted(meta.APIVersion), quoted(meta.Kind))
		}
	}
}

func sameChild(a, b sdk.Child) bool { return a.Name == b.Name && bytes.Equal(a.Object, b.Object) }

// childNames are the beginnings of names, and how many there are.
func childNames(children []sdk.Child) string {
	names := make([]string, 0, len(children))
	for _, child := range children {
		names = append(names, child.Name+"="+string(child.Object))
	}
	text, err := json.Marshal(names)
	if err != nil {
		return err.Error()
	}
	return quoted(string(text))
}

// takeBack reconciles a deployed item with what Render makes of it, as it is when an HTTP hook changes nothing. It returns the provider
// status that the item then has.
func (t *trial) takeBack(ctx context.Context, saved json.RawMessage) json.RawMessage {
	if why := noRender(t.examination); why != "" {
		t.skip(RuleRenderTakenBack, why)
		return saved
	}
	children, err := t.render(ctx, &t.c)
	if err != nil {
		return saved // it breaks another rule
	}
	t.pass(RuleRenderTakenBack)
	call := t.c.Call.with(saved)
	call.Children = children
	const name = "Reconcile with the desired objects of Render"
	result := t.job(ctx, name, t.plugin.service.Reconcile, call)
	t.expectSuccess(RuleRenderTakenBack, name, result)
	return result.ProviderStatus
}
