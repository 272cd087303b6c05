package objects

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
)

// Try asks the target whether it would accept the objects of a release in the place of a former one. It changes
// nothing. For an existing object only its owner matters; a missing one is created as a dry run.
func (k *Client) Try(result *helm.Result) error {
	if err := k.history.FindNamespace(); err != nil {
		return k.journal.Failed(err)
	}
	defined, err := definedBy(result.Definitions)
	if err != nil {
		return err
	}
	var found []helm.Found
	for _, o := range slices.Concat(result.Objects, objectsOfInstall(result.Hooks)) {
		infos, err := k.inner.Build(bytes.NewReader(o.JSON), false)
		if kind := new(meta.NoKindMatchError); errors.As(err, &kind) && defined[kind.GroupKind] {
			continue
		}
		if err != nil {
			return fmt.Errorf("unable to build kubernetes objects from release manifest: %w", err)
		}
		for _, info := range infos {
			taken, err := k.tryObject(info, defined)
			if err != nil {
				return err
			}
			if taken {
				found = append(found, helm.Found{Key: objectKey(info), Fate: helm.TakenOver, Of: k.req.Former.Owner()})
			}
		}
	}
	return k.tell(found)
}

// definedBy returns the kinds of the definitions in the folders crds of a chart.
func definedBy(definitions []helm.Object) (map[schema.GroupKind]bool, error) {
	kinds := map[schema.GroupKind]bool{}
	for _, o := range definitions {
		var definition struct {
			Spec struct {
				Group string
				Names struct{ Kind string }
			}
		}
		if err := json.Unmarshal(o.JSON, &definition); err != nil {
			return nil, journal.Failure(helm.ChartInvalid, "%s: expected a CustomResourceDefinition", o.Source)
		}
		kinds[schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}] = true
	}
	return kinds, nil
}

// objectsOfInstall returns the objects of the hooks of an installation.
func objectsOfInstall(hooks []helm.Hook) []helm.Object {
	var objects []helm.Object
	for _, h := range hooks {
		if slices.Contains(h.Events, "pre-install") || slices.Contains(h.Events, "post-install") {
			objects = append(objects, h.Object)
		}
	}
	return objects
}

// tryObject reports whether an object is taken over from the former release. The error is the reason against its
// creation.
func (k *Client) tryObject(info *resource.Info, defined map[schema.GroupKind]bool) (taken bool, err error) {
	mapping := info.Mapping
	definition := object.Key{
		Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition",
		Name: mapping.Resource.Resource + "." + mapping.Resource.Group,
	}
	if k.goes(definition) && !defined[mapping.GroupVersionKind.GroupKind()] {
		return false, journal.Failure(helm.ClusterFailed, "no matches for kind %q without %s, deleted with release %s; "+
			"deploy the definition by another deploy item", mapping.GroupVersionKind.Kind, definition, k.req.Former.Name)
	}
	live, err := k.read(info)
	if err != nil {
		return false, k.journal.Failed(fmt.Errorf("could not get information about the resource: %w", err))
	}
	if live == nil {
		return false, k.tryCreation(info)
	}
	of := helm.OwnerOf(metadata(live))
	former := of == k.req.Former.Owner()
	switch {
	case former, k.req.Options.TakeOwnership, of == k.req.Release.Owner():
		return former && !k.goes(objectKey(info)), nil
	case isHook(info):
		return false, nil // it names no release; its deletion policy decides
	default:
		return false, journal.Failure(helm.OwnedByOthers,
			"%s exists and cannot be imported into the release: it belongs to %s", objectKey(info), of)
	}
}

func isHook(info *resource.Info) bool {
	return metadata(info.Object).GetAnnotations()["helm.sh/hook"] != ""
}

// tryCreation creates an object as a dry run.
func (k *Client) tryCreation(info *resource.Info) error {
	if o := metadata(info.Object); !isHook(info) {
		o.SetLabels(merged(o.GetLabels(), map[string]string{"app.kubernetes.io/managed-by": "Helm"}))
		o.SetAnnotations(merged(o.GetAnnotations(), k.req.Release.Annotations()))
	}
	_, err := helperFor(info).DryRun(true).Create(info.Namespace, true, info.Object)
	if err == nil || k.isNoRefusal(err, info) {
		return nil
	}
	return k.journal.Failed(fmt.Errorf("failed to create resource: %w", err))
}

func merged(before, more map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, before)
	maps.Copy(all, more)
	return all
}

// isNoRefusal reports whether the error of a dry run has no meaning for the creation after the former release.
func (k *Client) isNoRefusal(err error, info *resource.Info) bool {
	text := err.Error()
	status := &apierrors.StatusError{}
	switch {
	case !errors.As(err, &status):
		return false
	case apierrors.IsAlreadyExists(err):
		return true
	case apierrors.IsBadRequest(err):
		return apiserver.RefusesDryRuns(err)
	case apierrors.IsNotFound(err):
		details := status.ErrStatus.Details
		return details != nil && details.Kind == "namespaces" && details.Name == k.req.Release.Namespace &&
			k.req.CreateNamespace
	default:
		return slices.ContainsFunc(k.req.Former.Goes, func(gone object.Key) bool { return frees(gone, info, text) })
	}
}

// frees reports whether the deletion of an object may free the cause of a refused creation: a quota, the port or
// address of a Service, or the object in the refusal of a webhook.
func frees(gone object.Key, info *resource.Info, refusal string) bool {
	kind := info.Mapping.GroupVersionKind.GroupKind()
	same := kind == schema.GroupKind{Group: gone.Group, Kind: gone.Kind}
	switch {
	case strings.Contains(refusal, "exceeded quota"):
		return gone.Namespace != "" && gone.Namespace == info.Namespace
	case strings.Contains(refusal, "already allocated"):
		return same && kind == schema.GroupKind{Kind: "Service"}
	default:
		return same && gone.Namespace != "" && strings.Contains(refusal, gone.Namespace+"/"+gone.Name)
	}
}

// goes reports whether an object goes with the former release.
func (k *Client) goes(key object.Key) bool { return slices.Contains(k.req.Former.Goes, key) }
