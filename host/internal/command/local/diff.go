package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var (
	// ErrCannotCompare is about a plugin without a comparison.
	ErrCannotCompare = errors.New("cannot compare: it lacks the capability diff")
	// ErrNotServed is about a type without a plugin.
	ErrNotServed = errors.New("no plugin serves the type")
)

// Diff returns the changes of a job of an item, by calls of its plugin, which validates the provider configuration
// first. The item's Target and Context come from the resolver. The error is ErrCannotCompare for a plugin without the
// capability, and ErrNotServed for a type without a plugin.
func (p *Plugins) Diff(
	ctx context.Context, resolver *target.Resolver, item *v1alpha1.DeployItem,
) ([]sdk.Change, error) {
	call, err := callFor(ctx, resolver, item)
	if err != nil {
		return nil, err
	}
	serving, err := p.serving(item.Spec.Type)
	if err != nil {
		return nil, err
	}
	info := serving.Info()
	if err := call.ReadNamed(ctx, info.Capabilities, resolver); err != nil {
		return nil, err
	}
	if info.Capabilities.Validate {
		found, err := serving.Validate(ctx, *call)
		if err != nil {
			return nil, fmt.Errorf("call the plugin %q: %w", info.Name, err)
		}
		if len(found.Errors) > 0 {
			return nil, errorsOf(info.Name, found.Errors)
		}
	}
	if !info.Capabilities.Diff {
		return nil, fmt.Errorf("the plugin %q %s serves the type %q, but %w",
			info.Name, info.Version, item.Spec.Type, ErrCannotCompare)
	}
	found, err := serving.Diff(ctx, *call)
	if err != nil {
		return nil, fmt.Errorf("call the plugin %q: %w", info.Name, err)
	}
	return found.Changes, errorsOf(info.Name, found.Errors)
}

// errorsOf joins the errors of a plugin; nil for none.
func errorsOf(name string, reasons []plugin.Error) (err error) {
	for _, reason := range reasons {
		err = errors.Join(err, fmt.Errorf("plugin %q: %s", name, text.Printable(ErrorText(reason))))
	}
	return err
}

// callFor resolves the data for a call of any plugin.
func callFor(ctx context.Context, resolver *target.Resolver, item *v1alpha1.DeployItem) (*plugin.Call, error) {
	resolved, targetErr := resolver.Target(ctx, item)
	itemContext, contextErr := resolver.Context(ctx, item)
	if err := errors.Join(targetErr, contextErr); err != nil {
		return nil, err
	}
	item = move.Own(item).DeepCopy()
	item.Status.JobID = uuid.NewString() // of a future job
	return &plugin.Call{DeployItem: item, Target: resolved, Context: itemContext}, nil
}

// serving returns the plugin for a type.
func (p *Plugins) serving(itemType v1alpha1.DeployItemType) (*plugin.Plugin, error) {
	if found := p.Set.For(itemType); found != nil {
		return found, nil
	}
	errs := []error{fmt.Errorf("%w %q; name the plugins of the host with --plugin-dir or --attach",
		ErrNotServed, itemType)}
	for _, s := range p.Set.Status() {
		if s.Problem != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", s.File, s.Problem))
		}
	}
	return nil, errors.Join(errs...)
}
