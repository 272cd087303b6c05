// Package orphan finds objects on target clusters with the mark of a missing deploy item. It reads metadata and writes
// nothing.
package orphan

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

// Report is the result of a search.
type Report struct {
	Objects []Object `json:"objects"`
	// OtherInstallations counts the objects of other installations, with unknown deploy items.
	OtherInstallations map[string]int `json:"otherInstallations,omitempty"`
	// Unlisted are the types of objects with failed lists.
	Unlisted []Unlisted `json:"unlisted,omitempty"`
}

// Object is an object without its deploy item.
type Object struct {
	// Target is the name of its Cluster.
	Target     string `json:"target"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Resource is the type as kubectl takes it, such as "deployments.apps".
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// DeployItem is the value of the label, see mark.ValueOf.
	DeployItem string `json:"deployItem"`
	// DeployItemUID is the UID in the mark; "" for none.
	DeployItemUID types.UID `json:"deployItemUID,omitempty"`
	// Installation is the installation in the mark; "" for none.
	Installation string `json:"installation,omitempty"`
}

// Unlisted is a type of objects with a failed list.
type Unlisted struct {
	Target string `json:"target"`
	// Resource is the type, such as "deployments.apps"; "*.<group>/<version>" for all of a group.
	Resource string `json:"resource"`
	Error    string `json:"error"`
	// Forbidden reports whether the list needs more rights.
	Forbidden bool `json:"forbidden,omitempty"`
}

// relation is the relation of an object to the deploy items.
type relation int

const (
	living relation = iota // with an existing deploy item
	orphaned
	elsewhere // of another installation
)

// items are the deploy items of a control plane.
type items struct {
	// uids by the value of the label.
	uids map[string]types.UID
	// installations of their objects.
	installations []string
}

func newItems(all []metav1.PartialObjectMetadata, installations []string) items {
	uids := make(map[string]types.UID, len(all))
	for i := range all {
		uids[mark.ValueOf(all[i].Namespace, all[i].Name)] = all[i].UID
	}
	return items{uids: uids, installations: installations}
}

// relationTo returns the relation of an object. Objects without an installation belong to these deploy items.
func (i items) relationTo(o metav1.Object) relation {
	if installation := installationOf(o); installation != "" && !slices.Contains(i.installations, installation) {
		return elsewhere
	}
	uid, exists := i.uids[o.GetLabels()[mark.DeployItem]]
	if noted := itemUIDOf(o); !exists || noted != "" && noted != uid {
		return orphaned
	}
	return living
}

func installationOf(o metav1.Object) string {
	labels := o.GetLabels()
	ofContainer := labels[mark.ContainerInstallation]
	if ofContainer == mark.NoInstallation {
		ofContainer = ""
	}
	return cmp.Or(o.GetAnnotations()[mark.Installation], labels[mark.Installation], ofContainer)
}

func itemUIDOf(o metav1.Object) types.UID { return types.UID(o.GetLabels()[mark.ContainerItem]) }

// compare orders objects for users.
func compare(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.DeployItem, b.DeployItem),
		cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
