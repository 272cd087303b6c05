// Package objectconfig has what the provider configurations of the deployers of objects share: fields, deletion groups,
// and the two forms of exports.
package objectconfig

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// Shared are the shared fields of the deployers of objects, as they are written. Exports are not among them: some
// deployers have others beside those of objects.
type Shared struct {
	UpdateStrategy             managedresource.UpdateStrategy
	IgnoreDifferences          []managedresource.IgnoreDifferences
	ReadinessChecks            managedresource.ReadinessCheckConfiguration
	ContinuousReconcile        *managedresource.ContinuousReconcile
	DeletionGroups             []managedresource.DeletionGroup
	DeletionGroupsDuringUpdate []managedresource.DeletionGroup
}

// Objects is the content of Shared.
type Objects struct {
	UpdateStrategy managedresource.UpdateStrategy
	// IgnoreDifferences are fields of objects left to other clients.
	IgnoreDifferences    ignore.Rules
	Checks               readiness.Checks
	DeletionDuringUpdate prune.Groups
}

// Parse returns the content of the fields, or all mistakes in them.
func (s Shared) Parse() (Objects, field.ErrorList) {
	c := Objects{UpdateStrategy: s.UpdateStrategy}
	problems := providerconfig.ValidateChoice(
		s.UpdateStrategy, managedresource.UpdateStrategies(), field.NewPath("updateStrategy"))
	var p field.ErrorList
	c.IgnoreDifferences, p = ignore.ParseRules(s.IgnoreDifferences, field.NewPath("ignoreDifferences"))
	problems = append(problems, p...)
	c.Checks, p = readiness.ParseChecks(s.ReadinessChecks, field.NewPath("readinessChecks"))
	problems = append(problems, p...)
	problems = append(problems, providerconfig.ValidateSchedule(s.ContinuousReconcile)...)
	// The deletion of the item reads these groups again; here a mistake in them is reported while there is time to
	// correct it.
	_, p = prune.ParseGroups(s.DeletionGroups, field.NewPath("deletionGroups"))
	problems = append(problems, p...)
	c.DeletionDuringUpdate, p = prune.ParseGroups(
		s.DeletionGroupsDuringUpdate, field.NewPath("deletionGroupsDuringUpdate"))
	return c, append(problems, p...)
}
