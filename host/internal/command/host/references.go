package host

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/host/internal/scope"
)

// keepReferences adds the controller for finalizers on the references of items.
func (h *host) keepReferences(ctx context.Context) error {
	switch keep := h.settings.KeepReferences; {
	case keep == config.KeepOff, keep == config.KeepAuto && !h.flags.standalone:
		return nil
	}
	keeper, err := inuse.Setup(ctx, h.manager, inuse.Options{
		Items: h.items.Each, Elected: h.replicas.elected,
	})
	if err != nil {
		return fmt.Errorf("keep what deploy items use: %w", err)
	}
	h.extras.keeper = keeper
	h.replicas.onElection(keeper.ReplicasChanged)
	return nil
}

// watchNamespaces adds the watch over the namespaces of a host for some of them.
func (h *host) watchNamespaces() error {
	if len(h.settings.Namespaces) == 0 {
		return nil
	}
	h.extras.scope = scope.New(scope.Options{
		Namespaces: h.settings.Namespaces, Live: h.manager.GetAPIReader(), Warn: h.pod.tell, Log: h.log,
	})
	return h.add(h.extras.scope)
}

// namespacesReady is the reason why the host cannot serve one of its namespaces; nil for a host of all namespaces.
func (h *host) namespacesReady() error {
	if h.extras.scope == nil {
		return nil
	}
	return h.extras.scope.Ready()
}
