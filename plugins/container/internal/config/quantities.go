package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// quantities are the amounts of a resource that are read: none that is negative, and no exponents, over some of which the library is busy for
// minutes.
var quantities = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,9})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$`)

// checkQuantities looks at the amounts in the field resources of a provider configuration before anybody decodes them, and returns what is
// wrong with them. What is wrong with the rest is found when it is decoded.
func checkQuantities(item *v1alpha1.DeployItem) []sdk.Problem {
	if item.Spec.Config == nil {
		return nil
	}
	// By exact names, as the decoder has it.
	var document, resources map[string]json.RawMessage
	if json.Unmarshal(item.Spec.Config.Raw, &document) != nil || json.Unmarshal(document["resources"], &resources) != nil {
		return nil
	}
	var problems []sdk.Problem
	for _, list := range slices.Sorted(maps.Keys(resources)) {
		var amounts map[string]json.RawMessage
		if json.Unmarshal(resources[list], &amounts) != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			text := strings.TrimSpace(string(amounts[name]))
			var quoted string
			if json.Unmarshal(amounts[name], &quoted) == nil {
				text = quoted
			}
			if text != "null" && !quantities.MatchString(text) {
				problems = append(problems, sdk.Problem{
					Field: fmt.Sprintf("resources.%s.%s", list, name), Message: "expected an amount such as 500m or 512Mi, without an exponent",
				})
			}
		}
	}
	return problems
}
