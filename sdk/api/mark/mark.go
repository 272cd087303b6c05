// Package mark has the labels and annotations by which an object on a target names its deploy item.
package mark

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// DeployItem is the label of each object of a deploy item: of those applied, of the revisions of its Helm release and
	// of the objects of the container deployer. ValueOf returns its value.
	DeployItem = "pergola.dev/deployitem"
	// Installation stands beside it, with the UID of the namespace kube-system of the deploy item's control plane: an
	// annotation of objects, and a label of the revisions of Helm releases.
	Installation = "pergola.dev/installation"
	// ContainerItem is the label of objects of the container deployer with the UID of their deploy item.
	ContainerItem = "container.pergola.dev/item"
	// ContainerInstallation is the label of these objects with the value of Installation, or NoInstallation.
	ContainerInstallation = "container.pergola.dev/installation"
	// NoInstallation is the value of ContainerInstallation as long as the installation is unknown.
	NoInstallation = "unknown"
)

// ValueOf returns the value of the label DeployItem for a deploy item: "<namespace>.<name>" as LabelValue has it.
func ValueOf(namespace, name string) string { return LabelValue(namespace + "." + name) }

// LabelValue returns the text, or its beginning with a hash if it is too long for a label.
func LabelValue(text string) string {
	if len(text) <= validation.LabelValueMaxLength {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	suffix := "-" + hex.EncodeToString(sum[:6])
	return text[:validation.LabelValueMaxLength-len(suffix)] + suffix
}
