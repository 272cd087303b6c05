package desired

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

type fields = map[string]any

func of(apiVersion, kind string, more fields) *unstructured.Unstructured {
	o := fields{"apiVersion": apiVersion, "kind": kind}
	for k, v := range more {
		o[k] = v
	}
	return &unstructured.Unstructured{Object: o}
}

// planned returns an object of a plan.
func planned(o *unstructured.Unstructured, namespace, name string) *Object {
	o.SetName(name)
	o.SetNamespace(namespace)
	m := Manifest{Manifest: object.Manifest{Object: o}}
	return New(m, target.Mapping{Namespaced: namespace != ""}, false, owner.Owner{})
}
