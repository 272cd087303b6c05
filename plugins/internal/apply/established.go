package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// established returns the condition missing for the use of a CustomResourceDefinition. The error is about names
// refused by the API server, a state that does not pass by itself. Both are empty for a usable definition, and for
// every other object.
func established(o *unstructured.Unstructured) (missing string, err error) {
	key := object.KeyOf(o)
	if !object.IsCRD(key.Group, key.Kind) {
		return "", nil
	}
	if _, ok := object.TrueCondition(o, "Established"); ok {
		return "", nil
	}
	if c, ok := object.ConditionOf(o, "NamesAccepted"); ok && c.Status == "False" {
		return "", &sdk.Error{
			Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry},
			Reason: ReasonNamesTaken, Heals: true,
			Err: fmt.Errorf("the API server does not accept its names: %s", c.Message),
		}
	}
	return fmt.Sprintf("%s to be established", key), nil
}
