package objectconfig

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// whole is the field of all of a provider configuration.
const whole = "spec.config"

// ReadDeletionGroups returns the steps of an item's deletion from the field deletionGroups of its provider
// configuration. A mistake in another field must not prevent a deletion, and is ignored. A mistake in the groups is
// an error, because they may exempt objects from the deletion. So is an unknown field in them with strict: without it
// a group may take more objects than intended.
func ReadDeletionGroups(req *sdk.Request, strict bool) (prune.Groups, error) {
	document, unknown, err := decodeDeletionGroups(req.DeployItem.Spec.Config)
	if err == nil && strict {
		err = errors.Join(unknown...)
	}
	if err != nil {
		return prune.Groups{}, sdk.ConfigurationError(sdk.ReasonConfigProblems, "%s: deletionGroups: %w", whole, err)
	}
	groups, problems := prune.ParseGroups(document, field.NewPath("deletionGroups"))
	if len(problems) > 0 {
		return prune.Groups{}, sdk.ConfigurationError(sdk.ReasonConfigProblems,
			"%s: %s", whole, providerconfig.Describe(problems))
	}
	return groups, nil
}

// decodeDeletionGroups reads only the deletion groups of a configuration. unknown has an error for each unknown field
// in them.
func decodeDeletionGroups(
	config *runtime.RawExtension,
) (groups []managedresource.DeletionGroup, unknown []error, err error) {
	if config == nil || !json.Valid(config.Raw) {
		return nil, nil, nil
	}
	var fields struct {
		DeletionGroups json.RawMessage `json:"deletionGroups"`
	}
	if err := json.Unmarshal(config.Raw, &fields); err != nil || len(fields.DeletionGroups) == 0 {
		return nil, nil, err
	}
	unknown, err = kjson.UnmarshalStrict(fields.DeletionGroups, &groups)
	for i, wrong := range unknown {
		if at := kjson.FieldError(nil); errors.As(wrong, &at) {
			unknown[i] = fmt.Errorf("%w%s", wrong, sdk.DidYouMean(groups, at.FieldPath()))
		}
	}
	return groups, unknown, err
}
