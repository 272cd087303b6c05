package scope

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

// annotationNamespaces has the namespaces of a host for some only, sorted and separated by commas.
const annotationNamespaces = "host.pergola.dev/namespaces"

// Note writes the namespaces of a host to its Lease; none for a host of all namespaces.
func Note(lease *coordinationv1.Lease, namespaces []string) {
	if len(namespaces) == 0 {
		delete(lease.Annotations, annotationNamespaces)
		return
	}
	names := strings.Join(slices.Sorted(slices.Values(namespaces)), ",")
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, annotationNamespaces, names)
}

// Unserved returns a line about the namespaces without a running host, by the Leases with a label; empty if there are
// none, or if the Leases may not be read.
func Unserved(ctx context.Context, reader client.Reader, label string, namespaces []string, now time.Time) string {
	leases := &coordinationv1.LeaseList{}
	if err := reader.List(ctx, leases, client.HasLabels{label}); err != nil {
		return ""
	}
	served := served(leases.Items, now)
	slices.Sort(namespaces)
	unserved := slices.DeleteFunc(slices.Compact(namespaces), func(namespace string) bool {
		return len(served) == 0 || slices.Contains(served, namespace)
	})
	if len(unserved) == 0 {
		return ""
	}
	return fmt.Sprintf("No host serves the DeployItems of %s: the running hosts are for the namespaces %s alone.\n",
		strings.Join(unserved, ", "), strings.Join(served, ", "))
}

// served returns the namespaces of the running hosts, sorted, by the Leases of all hosts. It is empty if one of them
// serves all namespaces, and without a valid Lease.
func served(leases []coordinationv1.Lease, now time.Time) (names []string) {
	for i := range leases {
		lease := &leases[i]
		renewed := ptr.Deref(lease.Spec.RenewTime, metav1.MicroTime{}).Time
		valid := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
		if ptr.Deref(lease.Spec.HolderIdentity, "") == "" || now.After(renewed.Add(valid)) {
			continue
		}
		some := lease.Annotations[annotationNamespaces]
		if some == "" {
			return nil
		}
		names = append(names, strings.Split(some, ",")...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
