package apply

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// servers returns the objects among all that answer the API server's calls for an object: the Services, and the
// workloads of their Pods.
func servers(of *unstructured.Unstructured, all []Applied) []Applied {
	services := objects.Called(of)
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
func (r runner) awaitServers(i *desired.Object, live *unstructured.Unstructured) outcome {
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
			return outcome{action: desired.ActionWait, why: fmt.Sprintf("%s, which %s calls: %s", server.Key, i.Key, missing)}
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
	for _, v := range object.Maps(live.Object, "spec", "versions") {
		served[v["name"]] = v["served"] == true
	}
	wanted := object.Maps(definition.Object, "spec", "versions")
	return slices.ContainsFunc(wanted, func(v map[string]any) bool {
		return v["served"] == true && !served[v["name"]]
	})
}

// ReasonFailed is the reason of the error about an object that has given up.
const ReasonFailed = "ObjectFailed"
