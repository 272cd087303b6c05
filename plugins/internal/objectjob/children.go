package objectjob

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
)

// ReasonChildren is the reason of the error about children other than the rendered objects.
const ReasonChildren = "ChildrenInvalid"

// Replace returns the manifests with the objects of the children in their places, or all problems of the children:
// each must be one of the manifests, by its name and the identity of its object, and none may be missing.
func Replace(manifests []desired.Manifest, children []sdk.Child) ([]desired.Manifest, field.ErrorList) {
	var problems field.ErrorList
	unused := make(map[string]sdk.Child, len(children))
	for _, child := range children {
		if _, twice := unused[child.Name]; twice {
			problems = append(problems, field.Invalid(childPath(child.Name), field.OmitValueType{}, "is given twice"))
		}
		unused[child.Name] = child
	}
	replaced := make([]desired.Manifest, 0, len(manifests))
	for _, m := range manifests {
		name := m.Path.String()
		child, ok := unused[name]
		if !ok {
			problems = append(problems, field.Required(childPath(name),
				fmt.Sprintf("%s cannot be left out", object.KeyOf(m.Object))))
			continue
		}
		delete(unused, name)
		o, p := readChild(child, m.Object)
		m.Object = o
		replaced, problems = append(replaced, m), append(problems, p...)
	}
	for _, child := range children {
		if _, unknown := unused[child.Name]; unknown {
			problems = append(problems, field.Invalid(
				childPath(child.Name), field.OmitValueType{}, "there is no such object"))
		}
	}
	return replaced, problems
}

// readChild reads the object of a child as the replacement of the original.
func readChild(child sdk.Child, original *unstructured.Unstructured) (*unstructured.Unstructured, field.ErrorList) {
	path := childPath(child.Name)
	parsed, problems := object.Parse(child.Object, path)
	if len(problems) > 0 {
		return nil, problems
	}
	if len(parsed) != 1 {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{}, "expected one object, but found a list")}
	}
	o := parsed[0].Object
	if object.KeyOf(o) != object.KeyOf(original) || o.GetAPIVersion() != original.GetAPIVersion() {
		return nil, field.ErrorList{field.Invalid(path, field.OmitValueType{},
			fmt.Sprintf("expected %s of apiVersion %s, as in the provider configuration, but found %s of apiVersion %s",
				object.KeyOf(original), original.GetAPIVersion(), object.KeyOf(o), o.GetAPIVersion()))}
	}
	return o, nil
}

func childPath(name string) *field.Path { return field.NewPath("children").Key(name) }
