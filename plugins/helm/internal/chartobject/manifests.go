// Package chartobject reads the objects rendered by Helm as manifests of package desired: their templates, namespaces
// and policies, and their children for HTTP hooks.
package chartobject

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// ReasonInvalid is the reason of the error about invalid objects of a chart.
const ReasonInvalid = "RenderedInvalid"

// Manifests returns the objects of a chart as manifests. Namespaced ones without a namespace get the release's.
func Manifests(objects []helm.Object, namespace string, ignored ignore.Rules) ([]desired.Manifest, error) {
	parsed, err := parse(objects)
	if err != nil {
		return nil, err
	}
	manifests := make([]desired.Manifest, 0, len(parsed))
	for _, p := range parsed {
		manifests = append(manifests, desired.Manifest{
			Manifest: p.Manifest, DefaultNamespace: namespace, Policy: policyOf(p.Manifest),
			Ignored: ignored.For(p.Object.GetKind(), p.Object.GetName()),
		})
	}
	return manifests, nil
}

// parsedObject is an object with its template.
type parsedObject struct {
	object.Manifest

	source string
}

// parse reads objects. A list is one object per item.
func parse(objects []helm.Object) ([]parsedObject, error) {
	var all []parsedObject
	var problems field.ErrorList
	for _, o := range objects {
		var path *field.Path
		if o.Source != "" {
			path = field.NewPath(o.Source)
		}
		manifests, p := object.Parse(o.JSON, path)
		problems = append(problems, p...)
		for _, m := range manifests {
			all = append(all, parsedObject{Manifest: m, source: o.Source})
		}
	}
	if len(problems) > 0 {
		return nil, sdk.ConfigurationError(ReasonInvalid, "%s", providerconfig.Describe(problems))
	}
	return all, nil
}

// Names returns objects with a kind and a name alone, for entries of the inventory.
func Names(entries []managedresource.ManagedResourceStatus) ([]helm.Object, error) {
	objects := make([]helm.Object, 0, len(entries))
	for _, e := range entries {
		content, err := json.Marshal(metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: e.Resource.APIVersion, Kind: e.Resource.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Resource.Namespace, Name: e.Resource.Name},
		})
		if err != nil {
			return nil, fmt.Errorf("write the name of an object: %w", err)
		}
		objects = append(objects, helm.Object{JSON: content})
	}
	return objects, nil
}

// policyAnnotation, with the value keep, keeps an unwanted object. Helm reads it in two ways: when it uninstalls a
// release, from the manifest and in any case of letters; when an upgrade drops the object, from the live object and to
// the letter.
const policyAnnotation = "helm.sh/resource-policy"

// policyOf returns the policy of an object of a chart, as Helm reads it when it uninstalls a release.
func policyOf(m object.Manifest) managedresource.Policy {
	if strings.ToLower(strings.TrimSpace(m.Object.GetAnnotations()[policyAnnotation])) == "keep" {
		return managedresource.PolicyKeep
	}
	return managedresource.PolicyManage
}

// KeptByAnnotation returns the reason to keep an object dropped by the chart, as Helm reads it when it upgrades a
// release; empty for none.
func KeptByAnnotation(_ managedresource.ManagedResourceStatus, live metav1.Object) (why string) {
	if live.GetAnnotations()[policyAnnotation] == "keep" {
		return "annotation " + policyAnnotation + ": keep"
	}
	return ""
}

// KeptByPolicy returns the reason to keep an object when Helm uninstalls a release; empty for none.
func KeptByPolicy(entry managedresource.ManagedResourceStatus, _ metav1.Object) (why string) {
	if entry.Policy == managedresource.PolicyKeep {
		return "policy keep"
	}
	return ""
}
