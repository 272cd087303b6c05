package deployer

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// labelsFor returns the labels of all objects of a deploy item.
func labelsFor(itemName string) map[string]string {
	return map[string]string{v1alpha2.DeployItemLabel: labelValue(itemName)}
}

// labelValue returns the name of the deploy item, as Landscaper does, or its beginning with a hash if it is too long for a
// label.
func labelValue(itemName string) string {
	if len(itemName) <= validation.LabelValueMaxLength {
		return itemName
	}
	sum := sha256.Sum256([]byte(itemName))
	suffix := "-" + hex.EncodeToString(sum[:4])
	return itemName[:validation.LabelValueMaxLength-len(suffix)] + suffix
}

// isLabelledFor returns a function that tells whether an object was applied by the deploy item.
func isLabelledFor(itemName string) func(*unstructured.Unstructured) bool {
	value := labelValue(itemName)
	return func(o *unstructured.Unstructured) bool { return o.GetLabels()[v1alpha2.DeployItemLabel] == value }
}
