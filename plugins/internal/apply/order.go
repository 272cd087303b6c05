package apply

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonFailed is the reason of the error about an object that has given up.
const ReasonFailed = "ObjectFailed"

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

func order(items []*Item) [][]*Item {
	converted := map[schema.GroupKind]bool{}
	for _, i := range items {
		if convertsHere(items, i) {
			group, _, _ := unstructured.NestedString(i.Desired.Object, "spec", "group")
			kind, _, _ := unstructured.NestedString(i.Desired.Object, "spec", "names", "kind")
			converted[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	sorted := make([][]*Item, stages)
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

// convertsHere reports whether a Service among the items converts the resources of a definition. Other conversion
// webhooks exist already, or waiting would not bring them: such a definition comes first, like any other.
func convertsHere(items []*Item, i *Item) bool {
	here := func(service object.Key) bool {
		return slices.ContainsFunc(items, func(other *Item) bool { return other.Key == service })
	}
	return object.IsCRD(i.Key.Group, i.Key.Kind) && slices.ContainsFunc(Called(i.Desired), here)
}

// Called returns the Services that the API server calls because of an object.
func Called(o *unstructured.Unstructured) []object.Key {
	var references []map[string]any
	switch gvk := o.GroupVersionKind(); {
	case object.Intercepts(gvk.Group, gvk.Kind):
		for _, webhook := range objectsIn(o.Object["webhooks"]) {
			references = append(references, child(webhook, "clientConfig", "service"))
		}
	case object.IsAPIService(gvk.Group, gvk.Kind):
		references = append(references, child(o.Object, "spec", "service"))
	case object.IsCRD(gvk.Group, gvk.Kind):
		conversion := child(o.Object, "spec", "conversion")
		if conversion["strategy"] == "Webhook" {
			references = append(references, child(conversion, "webhook", "clientConfig", "service"))
		}
	}
	var services []object.Key
	for _, r := range references {
		namespace, _ := r["namespace"].(string)
		if name, _ := r["name"].(string); name != "" {
			services = append(services, object.Key{Kind: "Service", Namespace: namespace, Name: name})
		}
	}
	return services
}

// servers returns the objects among all that answer the API server's calls for an object: the Services, and the
// workloads of their Pods.
func servers(of *unstructured.Unstructured, all []Applied) []Applied {
	services := Called(of)
	var found []Applied
	for _, service := range all {
		if !slices.Contains(services, service.Key) {
			continue
		}
		found = append(found, service)
		selector, _, _ := unstructured.NestedStringMap(service.Desired.Object, "spec", "selector")
		for _, a := range all {
			if a.Key.Namespace == service.Key.Namespace && len(selector) > 0 && runsPods(a.Desired, selector) {
				found = append(found, a)
			}
		}
	}
	return found
}

// runsPods reports whether an object is a Pod with the labels, or makes such Pods and keeps them. A Job does not.
func runsPods(o *unstructured.Unstructured, selector map[string]string) bool {
	path := []string{"spec", "template", "metadata", "labels"}
	switch o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		path = []string{"metadata", "labels"}
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return false
	}
	podLabels, _, _ := unstructured.NestedStringMap(o.Object, path...)
	return labels.SelectorFromSet(selector).Matches(labels.Set(podLabels))
}

// awaitServers returns the outcome wait, or an error, for an object to be written while its servers in the plan are
// not ready.
//
// A definition with a new version does not wait: a server that watches this version is not ready before it is served.
// Resources stored in older versions cannot be converted until the server is ready, but this comes to an end; the
// wait of a server and a definition for each other does not.
func (r runner) awaitServers(i *Item, live *unstructured.Unstructured) outcome {
	if r.dry || !r.plan.AwaitServers || object.IsCRD(i.Key.Group, i.Key.Kind) && bringsVersion(i.Desired, live) {
		return outcome{}
	}
	for _, server := range servers(i.Desired, r.applied) {
		missing, gaveUp := readiness.Judge(server.ToJudge())
		switch {
		case gaveUp:
			return outcome{err: &sdk.Error{
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Reason: ReasonFailed,
				Err: fmt.Errorf("%s, which it calls, has failed: %s", server.Key, missing),
			}}
		case missing != "":
			return outcome{action: wait, why: fmt.Sprintf("%s, which %s calls: %s", server.Key, i.Key, missing)}
		}
	}
	return outcome{}
}

// bringsVersion reports whether a definition serves a version not served so far; live is nil if there is none.
func bringsVersion(definition, live *unstructured.Unstructured) bool {
	if live == nil {
		return true
	}
	served := map[any]bool{}
	for _, v := range objectsIn(child(live.Object, "spec")["versions"]) {
		served[v["name"]] = v["served"] == true
	}
	return slices.ContainsFunc(objectsIn(child(definition.Object, "spec")["versions"]), func(v map[string]any) bool {
		return v["served"] == true && !served[v["name"]]
	})
}
