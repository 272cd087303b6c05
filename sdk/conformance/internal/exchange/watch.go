package exchange

import (
	"context"
	"errors"
	"fmt"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// Watched is an item of a watch with the input of a call for it, or with why there is none.
type Watched struct {
	Item   *v1alpha1.DeployItem
	Target *sdk.Target // nil for none
	Start  *deployerv1.Start
	Err    error
}

func (w Watched) view() sdk.WatchedItem {
	view := sdk.WatchedItem{Namespace: w.Item.Namespace, Name: w.Item.Name}
	if w.Target != nil {
		view.Target = w.Target.Name
	}
	return view
}

// WakeUps calls woken for each item with news until ctx ends, which is no error, or the plugin ends the stream.
func WakeUps(ctx context.Context, service deployerv1.DeployerServiceClient, woken func(namespace, name string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := service.Watch(ctx, &deployerv1.WatchRequest{})
	for err == nil {
		var wakeUp *deployerv1.WatchResponse
		if wakeUp, err = stream.Recv(); err == nil {
			woken(wakeUp.GetNamespace(), wakeUp.GetName())
		}
	}
	return unlessOver(ctx, err)
}

// WatchItems is WakeUps with answers to questions about the items.
func WatchItems(
	ctx context.Context, service deployerv1.DeployerServiceClient, items func() []Watched,
	woken func(namespace, name string),
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := service.WatchItems(ctx)
	for err == nil {
		var m *deployerv1.WatchPluginMessage
		if m, err = stream.Recv(); err != nil {
			break
		}
		if wakeUp := m.GetWakeUp(); wakeUp != nil {
			woken(wakeUp.GetNamespace(), wakeUp.GetName())
			continue
		}
		for _, answer := range answersOf(m, items()) {
			err = errors.Join(err, stream.Send(answer))
		}
	}
	return unlessOver(ctx, err)
}

func unlessOver(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the error is the end of ctx
	}
	return fmt.Errorf("watch: %w", err)
}

// answersOf answers a question.
func answersOf(m *deployerv1.WatchPluginMessage, items []Watched) []*deployerv1.WatchHostMessage {
	if list := m.GetListItems(); list != nil {
		return hostside.WatchedItems(list.GetSequence(), wire.Each(items, Watched.view))
	}
	in := m.GetRequestItem()
	problem := &hostside.Error{
		Operation: "RequestItem", Reason: hostside.ReasonItemNotWatched,
		Message: fmt.Sprintf("deploy item %s/%s: it is not in the watch", in.GetNamespace(), in.GetName()),
	}
	var start *deployerv1.Start
	for _, i := range items {
		switch {
		case i.Item.Namespace != in.GetNamespace() || i.Item.Name != in.GetName():
		case i.Err != nil:
			problem = &hostside.Error{Operation: "RequestItem", Message: i.Err.Error()}
		default:
			start, problem = i.Start, nil
		}
	}
	return []*deployerv1.WatchHostMessage{hostside.RequestedItem(in.GetSequence(), start, problem)}
}
