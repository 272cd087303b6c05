package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
)

// hostClusters are the accesses to the cluster of the pods that the configuration grants, by the names of the plugins.
func (h *host) hostClusters(podCluster *rest.Config) (map[string]plugin.HostCluster, error) {
	requester, err := client.New(podCluster, client.Options{Scheme: h.manager.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of the pods: %w", err)
	}
	installation := target.NewInstallation(h.manager.GetAPIReader())
	granted := map[string]plugin.HostCluster{}
	for name, p := range h.settings.Plugins {
		if p.HostCluster == nil {
			continue
		}
		account := p.HostCluster.ServiceAccount
		granted[name] = target.NewHostCluster(target.HostClusterOptions{
			Plugin: name, ServiceAccount: types.NamespacedName{Namespace: account.Namespace, Name: account.Name},
			Tokens: requester, Cluster: podCluster,
			Installation: installation, Clock: clock.RealClock{},
		}).Get
	}
	return granted, nil
}
