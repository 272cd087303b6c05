package deployer

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/providerconfig"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// Render implements sdk.Renderer. The children are the objects of the chart's templates. With a release those of hooks
// are not among them, since Helm creates them by itself.
//
// The name of a child identifies its object, such as "Deployment.apps shop/frontend".
func (d *Deployer) Render(ctx context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	ctx = target.WithBreaker(ctx)
	c, err := config.Read(req, d.settings.Strict)
	if err != nil {
		return nil, err
	}
	j, err := d.begin(ctx, req, c.Release.Namespace)
	if err != nil {
		return nil, err
	}
	archive, err := j.fetch(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	revision := 0
	if c.HelmDeployment {
		history, err := release.History(ctx, j.Client, c.Release)
		if err != nil {
			return nil, job.During(stepRelease, err)
		}
		revision = j.renderedAs(c, archive, history)
	}
	rendered, err := j.render(ctx, c, archive, revision)
	if err != nil {
		return nil, err
	}
	named, err := named(rendered.Objects)
	if err != nil {
		return nil, job.During(stepRender, err)
	}
	res := &sdk.RenderResponse{}
	for _, m := range named {
		document, err := json.Marshal(m.Object.Object)
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", m.Path, err)
		}
		res.Children = append(res.Children, sdk.Child{Name: m.Path.String(), Object: document})
	}
	return res, nil
}

// named returns the objects with the names of their children as paths. A list in a template is one object per item.
func named(objects []helm.Object) ([]apply.Manifest, error) {
	manifests, err := manifestsOf(objects, "")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, m := range manifests {
		name := childName(m.Object)
		if seen[name] {
			return nil, sdk.ConfigurationError(reasonRendered, "%s: the chart has another %s", m.Path, object.KeyOf(m.Object))
		}
		seen[name] = true
		manifests[i].Path = field.NewPath(name)
	}
	return manifests, nil
}

func childName(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind().String()
	if o.GetNamespace() == "" {
		return gk + " " + o.GetName()
	}
	return gk + " " + o.GetNamespace() + "/" + o.GetName()
}

// replace returns the objects with the children in their places.
func replace(objects []helm.Object, children []sdk.Child) ([]helm.Object, error) {
	if children == nil {
		return objects, nil
	}
	originals, err := named(objects)
	if err != nil {
		return nil, err
	}
	replaced, problems := job.Replace(originals, children)
	if len(problems) > 0 {
		return nil, sdk.ConfigurationError(job.ReasonChildren, "changed objects do not fit those of the chart: %s", providerconfig.Describe(problems))
	}
	sources, err := sourcesOf(objects)
	if err != nil {
		return nil, err
	}
	out := make([]helm.Object, 0, len(replaced))
	for i, m := range replaced {
		document, err := json.Marshal(m.Object.Object)
		if err != nil {
			return nil, fmt.Errorf("write %s as JSON: %w", m.Path, err)
		}
		out = append(out, helm.Object{Source: sources[i], JSON: document})
	}
	return out, nil
}

// sourcesOf returns the templates of objects, with an entry for each item of a list.
func sourcesOf(objects []helm.Object) ([]string, error) {
	var sources []string
	for _, o := range objects {
		manifests, err := manifestsOf([]helm.Object{o}, "")
		if err != nil {
			return nil, err
		}
		for range manifests {
			sources = append(sources, o.Source)
		}
	}
	return sources, nil
}
