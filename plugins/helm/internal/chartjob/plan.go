package chartjob

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// namespaces is the mapping of Namespaces in every API server.
var namespaces = target.Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}

// plan returns the plan for the objects, and for the namespace of the release if the job is to create it.
func (j *Job) plan(ctx context.Context, objects []helm.Object) (*apply.Plan, error) {
	manifests, err := chartobject.Manifests(objects, j.config.Release.Namespace, j.Ignored)
	if err != nil {
		return nil, err
	}
	for i := range manifests {
		manifests[i].Strategy = j.config.UpdateStrategy
	}
	if j.config.CreateNamespace {
		makes, err := j.makesNamespace(ctx)
		if err != nil {
			return nil, err
		}
		if makes {
			manifests = withNamespace(manifests, j.config.Release.Namespace)
		}
	}
	return apply.NewPlan(ctx, j.Client, manifests, j.Owner, j.Began)
}

// makesNamespace reports whether the namespace of the release is the job's to create, or was. An existing namespace of
// others, such as another item of the same namespace, is theirs.
func (j *Job) makesNamespace(ctx context.Context) (bool, error) {
	name := j.config.Release.Namespace
	if _, known := j.Status.Inventory.Get(object.KeyOf(namespaceObject(name))); known {
		return true, nil
	}
	_, err := j.Client.Metadata(namespaces, "").Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, target.Explain(j.Client.Host, fmt.Errorf("get the namespace %s of the release: %w", name, err))
	default:
		return false, nil
	}
}

// withNamespace adds the namespace of the release, unless the chart has it. It stays after the item, as one created by
// Helm does.
func withNamespace(manifests []desired.Manifest, name string) []desired.Manifest {
	o := namespaceObject(name)
	for _, m := range manifests {
		if object.KeyOf(m.Object) == object.KeyOf(o) {
			return manifests
		}
	}
	return append([]desired.Manifest{{
		Manifest: object.Manifest{Path: field.NewPath("createNamespace"), Object: o}, Policy: managedresource.PolicyKeep,
		Strategy: managedresource.UpdateStrategyMerge, // an existing one stays as it is
	}}, manifests...)
}

func namespaceObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}
