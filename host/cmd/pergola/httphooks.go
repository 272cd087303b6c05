package main

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// registerHTTPHooks has the manager reconcile DeployerRegistrations. Nothing asks for hooks before the plugins and the
// controller are there.
func (h *host) registerHTTPHooks() error {
	requests := httphook.NewMetrics()
	if err := requests.Register(metrics.Registry); err != nil {
		return fmt.Errorf("register metrics of HTTP hooks: %w", err)
	}
	var err error
	h.registrations, err = httphook.NewRegistrations(h.manager, httphook.RegistrationOptions{
		ClusterDomain: h.settings.ClusterDomain, Version: version, Metrics: requests, Log: h.log,
		Elected: h.electedForRegistrations, Deployers: h.deployer,
		Changed: func(types []v1alpha1.DeployItemType) { h.deployItems.HTTPHooksChanged(types) },
	})
	return err
}

// electedForRegistrations tells whether this replica writes the statuses of registrations. One whose plugins have not
// started could only write that nobody serves anything.
func (h *host) electedForRegistrations() bool {
	return h.replicas.elected() && len(h.plugins.Serving()) > 0
}

// deployer tells which plugin serves a type, and in how many replicas, this one included.
func (h *host) deployer(t v1alpha1.DeployItemType) (plugin, version string, replicas int, ok bool) {
	p := h.plugins.For(t)
	if p == nil {
		return "", "", 0, false
	}
	info := p.Info()
	return info.Name, info.Version, h.replicas.servers(info.Name), true
}

// served hears of the types of a plugin that begins to be served.
func (h *host) served(types []v1alpha1.DeployItemType) {
	h.leftovers.LookAgain()
	if h.jobs != nil {
		h.jobs.Served(types)
	}
}
