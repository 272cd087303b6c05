package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// maxChildName bounds the key of a desired object, which is made of the names of the object, its kind and its
// namespace.
const maxChildName = 1 << 10

// Rendered are the desired objects of a deploy item. Exactly one of Children and Errors counts: the Errors, if there
// are any.
type Rendered struct {
	// Children have a name each, which no other one has, and are JSON objects with apiVersion and kind.
	Children []sdk.Child
	Errors   []Error
}

// Render asks for the desired objects without applying them. It blocks until the plugin has answered, ctx has ended, or
// the deadline of the call has passed. The error is as with Call.
func (p *Plugin) Render(ctx context.Context, c Call) (*Rendered, error) {
	out, err := askAbout(ctx, p, c, func(ctx context.Context, client deployerv1.DeployerServiceClient,
		start *deployerv1.Start) (*deployerv1.RenderResponse, error) {
		return client.Render(ctx, &deployerv1.RenderRequest{Start: start})
	})
	if err != nil {
		return nil, err
	}
	switch outcome := out.GetOutcome().(type) {
	case *deployerv1.RenderResponse_Failed:
		return &Rendered{Errors: errorsFromWire(outcome.Failed.GetErrors())}, nil
	case *deployerv1.RenderResponse_Children:
		children, err := childrenFromWire(outcome.Children.GetChildren())
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		return &Rendered{Children: children}, nil
	default:
		return nil, fmt.Errorf("%w: its answer to Render says neither children nor failed", ErrProtocol)
	}
}

func childrenFromWire(in []*deployerv1.Child) ([]sdk.Child, error) {
	children := make([]sdk.Child, 0, len(in))
	seen := make(map[string]bool, len(in))
	for i, child := range in {
		name := child.GetName()
		switch {
		case name == "" || len(name) > maxChildName:
			return nil, fmt.Errorf("the name %q of its desired object %d is empty or longer than %d bytes", cut(name, maxText),
				i, maxChildName)
		case seen[name]:
			return nil, fmt.Errorf("two of its desired objects have the name %q", cut(name, maxText))
		}
		seen[name] = true
		var meta struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if err := json.Unmarshal(child.GetObject(), &meta); err != nil {
			return nil, fmt.Errorf("its desired object %q is no JSON object: %s", cut(name, maxText), bounded(err.Error()))
		}
		if meta.APIVersion == "" || meta.Kind == "" {
			return nil, fmt.Errorf("its desired object %q has no apiVersion or no kind", cut(name, maxText))
		}
		children = append(children, sdk.Child{Name: name, Object: child.GetObject()})
	}
	return children, nil
}

// childrenToWire keeps apart that nobody changed the children (nil) and that somebody removed them all (empty).
func childrenToWire(in []sdk.Child) *deployerv1.Children {
	if in == nil {
		return nil
	}
	out := &deployerv1.Children{}
	for _, child := range in {
		out.Children = append(out.Children, &deployerv1.Child{Name: child.Name, Object: child.Object})
	}
	return out
}
