// Package orphan finds objects on targets that bear the mark of a deploy item that does not exist. It reads metadata,
// and writes nothing.
package orphan

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

// Report says what was found.
type Report struct {
	Objects []Object `json:"objects"`
	// OtherInstallations counts the objects of installations that were not asked for. Whether their deploy items exist
	// is not known.
	OtherInstallations map[string]int `json:"otherInstallations,omitempty"`
	// Unlisted are the types of which the objects are not known.
	Unlisted []Unlisted `json:"unlisted,omitempty"`
}

// Object is an object whose deploy item does not exist.
type Object struct {
	// Target is the name of the cluster that it is in, see Cluster.
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
	// DeployItemUID is that of the deploy item; empty if the object does not say it.
	DeployItemUID types.UID `json:"deployItemUID,omitempty"`
	// Installation is the one that the deploy item was of; empty if the object does not say it.
	Installation string `json:"installation,omitempty"`
}

// Unlisted is a type of which the objects are not known.
type Unlisted struct {
	Target string `json:"target"`
	// Resource is the type, such as "deployments.apps"; "*.<group>/<version>" for all of a group.
	Resource string `json:"resource"`
	Error    string `json:"error"`
	// Forbidden reports whether rights are all that is missing.
	Forbidden bool `json:"forbidden,omitempty"`
}

// relation is whose an object is.
type relation int

const (
	living relation = iota // its deploy item exists
	orphaned
	elsewhere // it is of another installation
)

// items are the deploy items of a control plane.
type items struct {
	// uids are their UIDs by the value of their label.
	uids map[string]types.UID
	// installations are those whose objects are theirs.
	installations []string
}

func newItems(all []metav1.PartialObjectMetadata, installations []string) items {
	uids := make(map[string]types.UID, len(all))
	for i := range all {
		uids[mark.ValueOf(all[i].Namespace, all[i].Name)] = all[i].UID
	}
	return items{uids: uids, installations: installations}
}

// relationTo returns whose an object is. An object without a mark of an installation is taken for one of theirs.
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

// compare orders objects as they are shown.
func compare(a, b Object) int {
	return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.DeployItem, b.DeployItem),
		cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
