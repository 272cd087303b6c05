package chartobject

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objectjob"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// Children returns the objects as the children for an HTTP hook. The name of a child identifies its object, such as
// "Deployment.apps shop/frontend".
func Children(objects []helm.Object) ([]sdk.Child, error) {
	named, err := named(objects)
	if err != nil {
		return nil, err
	}
	children := make([]sdk.Child, 0, len(named))
	for _, m := range named {
		document, err := json.Marshal(m.Object.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", m.Path, err)
		}
		children = append(children, sdk.Child{Name: m.Path.String(), Object: document})
	}
	return children, nil
}

// Replace returns the objects with the children of an HTTP hook in their places; the objects themselves without
// children.
func Replace(objects []helm.Object, children []sdk.Child) ([]helm.Object, error) {
	if children == nil {
		return objects, nil
	}
	originals, err := named(objects)
	if err != nil {
		return nil, err
	}
	manifests := make([]desired.Manifest, 0, len(originals))
	for _, o := range originals {
		manifests = append(manifests, desired.Manifest{Manifest: o.Manifest})
	}
	replaced, problems := objectjob.Replace(manifests, children)
	if len(problems) > 0 {
		return nil, sdk.ConfigurationError(objectjob.ReasonChildren,
			"changed objects do not fit those of the chart: %s", providerconfig.Describe(problems))
	}
	out := make([]helm.Object, 0, len(replaced))
	for i, m := range replaced {
		document, err := json.Marshal(m.Object.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s as JSON: %w", m.Path, err)
		}
		out = append(out, helm.Object{Source: originals[i].source, JSON: document})
	}
	return out, nil
}

// named returns the objects with the names of their children as paths.
func named(objects []helm.Object) ([]parsedObject, error) {
	parsed, err := parse(objects)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, p := range parsed {
		name := childName(p.Object)
		if seen[name] {
			return nil, sdk.ConfigurationError(ReasonInvalid,
				"%s: the chart has another %s", p.Path, object.KeyOf(p.Object))
		}
		seen[name] = true
		parsed[i].Path = field.NewPath(name)
	}
	return parsed, nil
}

func childName(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind().String()
	if o.GetNamespace() == "" {
		return gk + " " + o.GetName()
	}
	return gk + " " + o.GetNamespace() + "/" + o.GetName()
}
