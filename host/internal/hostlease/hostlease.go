// Package hostlease finds the running hosts of a cluster by their Leases, for users and their commands. Package lock
// writes the Leases.
package hostlease

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Label is on the Leases of all hosts. Its value is a digest of the host's group.
	Label = "host.pergola.dev/group"
	// annotationNamespaces has the namespaces of a host for some only, sorted and separated by commas.
	annotationNamespaces = "host.pergola.dev/namespaces"
)

// NoteNamespaces writes the namespaces of a host to its Lease; none for a host of all namespaces.
func NoteNamespaces(lease *coordinationv1.Lease, namespaces []string) {
	if len(namespaces) == 0 {
		delete(lease.Annotations, annotationNamespaces)
		return
	}
	names := strings.Join(slices.Sorted(slices.Values(namespaces)), ",")
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationNamespaces, names)
}

// Hosts are the hosts of a cluster by their Leases, of all installations and namespaces. The zero value is a cluster
// without Leases of hosts.
type Hosts struct {
	// Running reports whether a Lease is valid.
	Running bool
	// Namespaces are those of the running hosts, sorted; empty if one of them serves all namespaces.
	Namespaces []string
	// Last is the Lease with the last renewal, with its namespace, and Renewed its time; empty without Leases.
	Last    string
	Renewed time.Time
}

// Find reads the Leases of hosts. Without locks, a host beside a Landscaper has none. Errors are those of the API
// server, wrapped.
func Find(ctx context.Context, reader client.Reader, now time.Time) (Hosts, error) {
	list := &coordinationv1.LeaseList{}
	if err := reader.List(ctx, list, client.HasLabels{Label}); err != nil {
		return Hosts{}, fmt.Errorf("list the Leases of hosts: %w", err)
	}
	return hostsOf(list.Items, now), nil
}

func hostsOf(leases []coordinationv1.Lease, now time.Time) (hosts Hosts) {
	all := false
	for i := range leases {
		lease := &leases[i]
		renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
		if hosts.Last == "" || renewed.After(hosts.Renewed) {
			hosts.Last, hosts.Renewed = lease.Namespace+"/"+lease.Name, renewed
		}
		valid := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || !now.Before(renewed.Add(valid)) {
			continue
		}
		hosts.Running = true
		if some := lease.Annotations[annotationNamespaces]; some != "" {
			hosts.Namespaces = append(hosts.Namespaces, strings.Split(some, ",")...)
		} else {
			all = true
		}
	}
	slices.Sort(hosts.Namespaces)
	if hosts.Namespaces = slices.Compact(hosts.Namespaces); all {
		hosts.Namespaces = nil
	}
	return hosts
}

// Unserved returns a line about the namespaces without a running host; empty if there are none, and if no host runs
// at all.
func (h Hosts) Unserved(namespaces []string) string {
	unserved := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(namespaces))), func(namespace string) bool {
		return len(h.Namespaces) == 0 || slices.Contains(h.Namespaces, namespace)
	})
	if len(unserved) == 0 {
		return ""
	}
	return fmt.Sprintf("No host serves the DeployItems of %s: the running hosts are for the namespaces %s alone.\n",
		strings.Join(unserved, ", "), strings.Join(h.Namespaces, ", "))
}
