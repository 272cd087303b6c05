// Package mark has the labels and annotations by which an object on a target says which deploy item has deployed it.
package mark

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// DeployItem is the label of each object that a deploy item has applied, of the revisions of its Helm release and of
	// what the container deployer makes for it. Its value is that of ValueOf.
	DeployItem = "pergola.dev/deployitem"
	// Installation is beside it, and has the UID of the namespace kube-system of the control plane that the deploy item is
	// in: an annotation of objects, and a label of the revisions of Helm releases.
	Installation = "pergola.dev/installation"
	// ContainerItem is the label with the UID of the deploy item on what the container deployer makes.
	ContainerItem = "container.pergola.dev/item"
	// ContainerInstallation is the label of these objects with what Installation has, or NoInstallation.
	ContainerInstallation = "container.pergola.dev/installation"
	// NoInstallation is the value of ContainerInstallation if nobody knows the installation.
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
