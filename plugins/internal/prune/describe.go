package prune

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
)

// describe names an object under deletion, with the beginning of its deletion and the obstacles.
func describe(key object.Key, live *unstructured.Unstructured) string {
	return key.String() + note(append(circumstances(live), obstacles(live)...))
}

func note(details []string) string {
	if len(details) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.Join(details, "; "))
}

// circumstances returns the details of an object's deletion in its metadata.
func circumstances(o metav1.Object) []string {
	var details []string
	if since := o.GetDeletionTimestamp(); since != nil {
		details = append(details, "being deleted since "+since.UTC().Format(time.RFC3339))
	}
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		details = append(details, "finalizers "+strings.Join(finalizers, ", "))
	}
	return details
}

// tellingConditions are the types of the conditions that show the obstacles for a Namespace and a
// CustomResourceDefinition: those of the controllers that empty them.
var tellingConditions = map[schema.GroupKind][]string{
	{Kind: "Namespace"}: {
		"NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure",
		"NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure",
	},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: {"Terminating"},
}

// hasObstacles reports whether obstacles may find any in objects of the kind.
func hasObstacles(group, kind string) bool {
	return tellingConditions[schema.GroupKind{Group: group, Kind: kind}] != nil
}

// obstacles returns the obstacles for an object's deletion in its conditions.
func obstacles(live *unstructured.Unstructured) []string {
	telling := tellingConditions[live.GroupVersionKind().GroupKind()]
	if telling == nil {
		return nil
	}
	var details []string
	for _, c := range objects.Conditions(live) {
		if slices.Contains(telling, c.Type) && c.Status == "True" && c.Message != "" {
			details = append(details, c.Message)
		}
	}
	return details
}
