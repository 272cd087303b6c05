package serving

import (
	"context"
	"errors"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

var (
	// ErrHostTooOld is the error of a question without an answer in this version of the host.
	ErrHostTooOld = errors.New("the host is too old")

	errNoQuestions = errors.New("only Reconcile, Delete, Abort, ForceReconcile and CheckHealth can ask the host")
)

// ResolveTarget asks for a Target by its name.
func (c *Call) ResolveTarget(ctx context.Context, name string) (*deployerv1.ResolvedTarget, error) {
	if c == nil {
		return nil, errNoQuestions
	}
	answer, err := c.ask(ctx, c.resolvesTargets, func(sequence uint64) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveTarget{
			ResolveTarget: &deployerv1.ResolveTarget{Sequence: sequence, Name: name},
		}}
	})
	return answer.GetResolvedTarget(), err
}

// ResolveRegistryCredentials asks for the credentials in a Secret.
func (c *Call) ResolveRegistryCredentials(
	ctx context.Context, namespace, name string,
) (*deployerv1.ResolvedRegistryCredentials, error) {
	if c == nil {
		return nil, errNoQuestions
	}
	answer, err := c.ask(ctx, c.resolvesRegistryCredentials, func(sequence uint64) *deployerv1.PluginMessage {
		return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveRegistryCredentials{
			ResolveRegistryCredentials: &deployerv1.ResolveRegistryCredentials{
				Sequence: sequence, Namespace: namespace, Name: name,
			},
		}}
	})
	return answer.GetResolvedRegistryCredentials(), err
}

// Items asks for the deploy items of the watch.
func (w *Watch) Items(ctx context.Context) (items []*deployerv1.WatchedItem, err error) {
	answer, err := w.ask(ctx, func(sequence uint64) *deployerv1.WatchPluginMessage {
		return &deployerv1.WatchPluginMessage{Content: &deployerv1.WatchPluginMessage_ListItems{
			ListItems: &deployerv1.ListItems{Sequence: sequence},
		}}
	})
	for _, m := range answer {
		items = append(items, m.GetWatchedItems().GetItems()...)
	}
	return items, err
}

// Request asks for the start of a call for one of the deploy items.
func (w *Watch) Request(ctx context.Context, namespace, name string) (*deployerv1.RequestedItem, error) {
	answer, err := w.ask(ctx, func(sequence uint64) *deployerv1.WatchPluginMessage {
		return &deployerv1.WatchPluginMessage{Content: &deployerv1.WatchPluginMessage_RequestItem{
			RequestItem: &deployerv1.RequestItem{Sequence: sequence, Namespace: namespace, Name: name},
		}}
	})
	if err != nil {
		return nil, err
	}
	return answer[len(answer)-1].GetRequestedItem(), nil
}
