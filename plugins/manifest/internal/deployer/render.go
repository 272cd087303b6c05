package deployer

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
)

// reasonChildren is given to the error about children that do not fit the provider configuration.
const reasonChildren = "ChildrenInvalid"

// Render implements sdk.Renderer. It needs no target: what depends on that, such as the default namespace of an object, and
// the label of the deploy item, which is nobody else's to change, are added when the objects are applied.
//
// The name of a child is the path of its object in the provider configuration, such as "manifests[2].manifest".
func (d *Deployer) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	config, err := readConfig(req)
	if err != nil {
		return nil, err
	}
	res := &sdk.RenderResponse{}
	for _, m := range config.manifests {
		document, err := json.Marshal(m.Object.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", m.Path, err)
		}
		res.Children = append(res.Children, sdk.Child{Name: m.Path.String(), Object: document})
	}
	return res, nil
}

// replace returns the manifests with the objects of the children in their places, or everything that is wrong with the
// children: each must be one of the manifests, by its name and by what identifies its object, and none may be missing.
func replace(manifests []object.Manifest, children []sdk.Child) ([]object.Manifest, field.ErrorList) {
	var problems field.ErrorList
	unused := make(map[string]sdk.Child, len(children))
	for _, child := range children {
		if _, twice := unused[child.Name]; twice {
			problems = append(problems, field.Invalid(childPath(child.Name), field.OmitValueType{}, "is given twice"))
		}
		unused[child.Name] = child
	}
	replaced := make([]object.Manifest, 0, len(manifests))
	for _, m := range manifests {
		name := m.Path.String()
		child, ok := unused[name]
		if !ok {
			problems = append(problems, field.Required(childPath(name), fmt.Sprintf("%s cannot be left out", object.KeyOf(m.Object))))
			continue
		}
		delete(unused, name)
		o, p := readChild(child, m.Object)
		replaced, problems = append(replaced, object.Manifest{Path: m.Path, Object: o}), append(problems, p...)
	}
	for _, child := range children {
		if _, unknown := unused[child.Name]; unknown {
			problems = append(problems, field.Invalid(childPath(child.Name), field.OmitValueType{}, "the provider configuration has no such object"))
		}
	}
	return replaced, problems
}

// readChild reads the object of a child, which takes the place of the original.
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
