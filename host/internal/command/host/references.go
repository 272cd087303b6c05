package host

import (
	"context"
	"fmt"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
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
