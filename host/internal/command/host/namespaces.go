package host

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/scope"
)

// watchNamespaces adds the watch over the namespaces of a host for some of them.
func (h *host) watchNamespaces() error {
	if len(h.settings.Namespaces) == 0 {
		return nil
	}
	h.extras.scope = scope.New(scope.Options{
		Namespaces: h.settings.Namespaces, Live: h.manager.GetAPIReader(), Warn: h.warnOnPod, Log: h.log,
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

// warnOnPod records an event of the host's Pod, if it has one.
func (h *host) warnOnPod(ctx context.Context, reason, message string) {
	if !h.pod.self.known() {
		return
	}
	if err := h.pod.warn(ctx, reason, message, time.Now()); err != nil {
		h.log.Warn("cannot record an event of the own pod", "reason", reason, "error", err.Error())
	}
}
