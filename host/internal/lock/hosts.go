package lock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Hosts is what the Leases of a cluster say about its hosts, of all installations and namespaces. The zero value is a
// cluster without Leases of hosts.
type Hosts struct {
	// Running reports whether a Lease is valid.
	Running bool
	// Last is the Lease that was renewed last, with its namespace, and Renewed the time of that; empty without Leases.
	Last    string
	Renewed time.Time
}

// FindHosts reads the Leases of hosts. Without locks, a host beside a Landscaper has none.
func FindHosts(ctx context.Context, reader client.Reader, now time.Time) (Hosts, error) {
	list := &coordinationv1.LeaseList{}
	if err := reader.List(ctx, list, client.HasLabels{LabelGroup}); err != nil {
		return Hosts{}, fmt.Errorf("list the Leases of hosts: %w", err)
	}
	return hostsOf(list.Items, now), nil
}

func hostsOf(leases []coordinationv1.Lease, now time.Time) (hosts Hosts) {
	for i := range leases {
		lease := &leases[i]
		renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
		valid := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		held := ptr.Deref(lease.Spec.HolderIdentity, "") != ""
		hosts.Running = hosts.Running || held && now.Before(renewed.Add(valid))
		if hosts.Last == "" || renewed.After(hosts.Renewed) {
			hosts.Last, hosts.Renewed = lease.Namespace+"/"+lease.Name, renewed
		}
	}
	return hosts
}
