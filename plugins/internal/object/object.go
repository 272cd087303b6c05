// Package object names Kubernetes objects and reads them from manifests.
package object

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Key identifies an object on its cluster. It has no version: an object is the same in all versions of its API.
type Key struct {
	Group, Kind, Namespace, Name string
}

// KeyOf returns the key of an object.
func KeyOf(o *unstructured.Unstructured) Key {
	gvk := o.GroupVersionKind()
	return Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// KeyOfReference returns the key of the object of a reference.
func KeyOfReference(r managedresource.ObjectReference) Key {
	return Key{Group: GVK(r.APIVersion, r.Kind).Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
}

// String returns the key as users read it, such as "Deployment shop/frontend" or "Namespace shop".
func (k Key) String() string {
	if k.Namespace == "" {
		return k.Kind + " " + k.Name
	}
	return k.Kind + " " + k.Namespace + "/" + k.Name
}

// GVK reads an apiVersion as leniently as possible: an unreadable one becomes the version.
func GVK(apiVersion, kind string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(apiVersion, kind)
}

// IsCRD reports whether objects of this group and kind define kinds of their own.
func IsCRD(group, kind string) bool {
	return group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition"
}

// Intercepts reports whether objects of this group and kind stand in the way of requests for other objects: the
// configurations of webhooks, and the bindings of admission policies. Without the server of the one or the parameters
// of the other, such requests are refused.
func Intercepts(group, kind string) bool {
	if group != "admissionregistration.k8s.io" {
		return false
	}
	switch kind {
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding":
		return true
	default:
		return false
	}
}

// IsAPIService reports whether objects of this group and kind let other servers serve API groups.
func IsAPIService(group, kind string) bool {
	return group == "apiregistration.k8s.io" && kind == "APIService"
}

// Enumerate lists the first texts, at most so many, and the number of further ones, so that a message about many
// objects stays readable.
func Enumerate(texts []string, separator string, most int) string {
	if len(texts) <= most {
		return strings.Join(texts, separator)
	}
	return fmt.Sprintf("%s%sand %d more", strings.Join(texts[:most], separator), separator, len(texts)-most)
}

// Cut shortens a text to about so many bytes, between two characters.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := 0
	for i := range text {
		if i > most {
			break
		}
		end = i
	}
	return text[:end] + "…"
}
