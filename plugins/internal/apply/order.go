package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
)

// The stages of a plan.
const (
	stageDefinitions = iota
	stageClusterScoped
	stageNamespaced
	// stageConverting has the definitions whose resources a Service of the plan converts.
	stageConverting
	// stageConverted has the resources of these definitions.
	stageConverted
	// stageCalling has the objects that make the API server send requests for other objects to a server, or have them
	// judged: once these exist, the objects they need themselves could be refused, and those of all other clients.
	stageCalling
	stages
)

func order(items []*desired.Object) [][]*desired.Object {
	converted := map[schema.GroupKind]bool{}
	for _, i := range items {
		if convertsHere(items, i) {
			converted[objects.DefinedKind(i.Desired)] = true
		}
	}
	sorted := make([][]*desired.Object, stages)
	for _, i := range items {
		stage := stageNamespaced
		switch {
		case isCalling(i.Key):
			stage = stageCalling
		case convertsHere(items, i):
			stage = stageConverting
		case object.IsCRD(i.Key.Group, i.Key.Kind):
			stage = stageDefinitions
		case converted[schema.GroupKind{Group: i.Key.Group, Kind: i.Key.Kind}]:
			stage = stageConverted
		case !i.Mapping.Namespaced:
			stage = stageClusterScoped
		}
		sorted[stage] = append(sorted[stage], i)
	}
	return sorted
}

func isCalling(key object.Key) bool {
	return object.Intercepts(key.Group, key.Kind) || object.IsAPIService(key.Group, key.Kind)
}

// convertsHere reports whether a Service of the plan converts the resources of a definition. Other conversion
// webhooks exist already, or waiting would not bring them: such a definition comes first, like any other.
func convertsHere(items []*desired.Object, i *desired.Object) bool {
	here := func(service object.Key) bool {
		return slices.ContainsFunc(items, func(other *desired.Object) bool { return other.Key == service })
	}
	return object.IsCRD(i.Key.Group, i.Key.Kind) && slices.ContainsFunc(objects.Called(i.Desired), here)
}
