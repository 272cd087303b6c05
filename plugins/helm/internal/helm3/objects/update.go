package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/render"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

const (
	// maxTries bounds the writes of one object against concurrent changes of other clients, and maxConflicts those of
	// them with its resourceVersion: after that only the UID counts, or an object under constant change could not be
	// written.
	maxTries, maxConflicts = 8, 5
	// concurrency bounds the concurrent deletions of objects of a kind.
	concurrency = 8
)

var errKeepsChanging = errors.New("other clients keep changing it at the same time")

// update does the work of Helm's client: it brings objects to the target state, and deletes the original ones missing
// in it. Unlike Helm it leaves objects of others alone, and writes only to the object it has read.
func (k *Client) update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	result := &kube.Result{}
	live, err := k.readExisting(original, target)
	if err != nil {
		return result, err
	}
	k.autoscalers = ignore.NewAutoscalers(k.listAutoscalers, changesOf(original, target))
	var failures []string
	for _, info := range k.own(target) {
		if live[info] == nil {
			result.Created = append(result.Created, info)
			if err := k.create(info); err != nil {
				return result, fmt.Errorf("failed to create resource: %w", err)
			}
			continue
		}
		result.Updated = append(result.Updated, info)
		if err := k.change(info, original.Get(info), live[info], force); err != nil {
			k.journal.Log("error updating the resource %q: %v", info.Name, err)
			failures = append(failures, k.journal.Failed(err).Error())
		}
	}
	if len(failures) > 0 {
		return result, errors.New(strings.Join(failures, " && "))
	}
	result.Deleted, err = k.deleteDropped(original.Difference(target))
	return result, err
}

func (k *Client) listAutoscalers(ctx context.Context, namespace string) (*unstructured.UnstructuredList, error) {
	config, err := k.getter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.Resource(ignore.AutoscalerResource).Namespace(namespace).List(ctx, metav1.ListOptions{})
}

// changesOf returns the autoscalers added and removed by an update.
func changesOf(original, target kube.ResourceList) ignore.Changes {
	var changes ignore.Changes
	for _, info := range target {
		if o, ok := info.Object.(*unstructured.Unstructured); ok && o.GroupVersionKind().GroupKind() == ignore.Kind {
			scaler := o.DeepCopy()
			scaler.SetNamespace(info.Namespace)
			changes.Wanted = append(changes.Wanted, scaler)
		}
	}
	dropped := original.Difference(target)
	changes.Dropped = func(namespace, name string) bool {
		return slices.ContainsFunc(dropped, func(info *resource.Info) bool {
			return info.Mapping.GroupVersionKind.GroupKind() == ignore.Kind && info.Namespace == namespace && info.Name == name
		})
	}
	return changes
}

// readExisting returns the existing ones of the objects, and reports those of others to the observer.
func (k *Client) readExisting(original, target kube.ResourceList) (map[*resource.Info]runtime.Object, error) {
	live := map[*resource.Info]runtime.Object{}
	var found []helm.Found
	_, what := k.history.Current()
	for _, info := range target {
		o, err := k.read(info)
		if err != nil {
			return nil, fmt.Errorf("could not get information about the resource: %w", err)
		}
		if o == nil {
			continue
		}
		live[info] = o
		// Helm adds the taken over ones of the target to the original.
		adopted := original.Get(info) == info || what == "install"
		if fate := k.fateInUpdate(metadata(o), adopted); fate != "" {
			found = append(found, helm.Found{Key: objectKey(info), Fate: fate, Of: helm.OwnerOf(metadata(o))})
		}
	}
	return live, k.tell(found)
}

// read returns a live object; nil if it does not exist.
func (k *Client) read(info *resource.Info) (runtime.Object, error) {
	o, err := helperFor(info).Get(info.Namespace, info.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // see above
	}
	return o, err
}

func helperFor(info *resource.Info) *resource.Helper {
	return resource.NewHelper(info.Client, info.Mapping).WithFieldManager(kube.ManagedFieldsManager)
}

func (k *Client) create(info *resource.Info) error {
	created, err := helperFor(info).Create(info.Namespace, true, info.Object)
	if err != nil {
		return err
	}
	k.created[metadata(created).GetUID()] = true
	return info.Refresh(created, true)
}

// change writes an existing object. before is the object in the revision before; nil if that lacks it.
func (k *Client) change(info, before *resource.Info, live runtime.Object, force bool) error {
	taken := !k.isOurs(metadata(live)) // known to the observer
	for try := range maxTries {
		base := live
		if before != nil {
			base = before.Object
		}
		wanted, err := k.withoutIgnored(info, live)
		if err != nil {
			return err
		}
		written, err := k.write(wanted, base, live, force, try < maxConflicts)
		if !apierrors.IsConflict(err) {
			if err != nil {
				return err
			}
			return info.Refresh(written, true)
		}
		if live, err = k.read(info); err != nil || live == nil {
			return fmt.Errorf("read %q again: %w", info.Name, errors.Join(err, errKeepsChanging))
		}
		if !taken && !k.isOurs(metadata(live)) {
			return fmt.Errorf("%q: %w", info.Name, errKeepsChanging)
		}
	}
	return fmt.Errorf("%q: %w", info.Name, errKeepsChanging)
}

// withoutIgnored returns an object with the live values of the fields of other clients.
func (k *Client) withoutIgnored(info *resource.Info, live runtime.Object) (*resource.Info, error) {
	wanted, isWanted := info.Object.(*unstructured.Unstructured)
	found, isFound := live.(*unstructured.Unstructured)
	if !isWanted || !isFound {
		return info, nil // Helm's client decodes no objects
	}
	ignored := k.req.Ignored.For(wanted.GetKind(), wanted.GetName())
	ignored = append(ignored, ignore.Bundles(wanted.Object, found.Object)...)
	scaled, err := k.autoscalers.Scale(k.ctx, wanted.Object, found.Object)
	if err != nil {
		return nil, err
	}
	if scaled {
		ignored = append(ignored, ignore.Replicas)
	}
	if len(ignored) == 0 {
		return info, nil
	}
	out, object := *info, wanted.DeepCopy()
	for _, p := range ignored {
		ignore.Leave(object.Object, found.Object, p)
	}
	out.Object = object
	return &out, nil
}

// write sends one change to an object, if there is one. With unchanged it fails if the object has changed since it was
// read.
func (k *Client) write(
	info *resource.Info, before, live runtime.Object, force, unchanged bool,
) (runtime.Object, error) {
	kind := info.Mapping.GroupVersionKind.Kind
	if force {
		replacement := info.Object.DeepCopyObject()
		metadata(replacement).SetResourceVersion(metadata(live).GetResourceVersion())
		written, err := helperFor(info).Replace(info.Namespace, info.Name, true, replacement)
		if err != nil {
			return nil, fmt.Errorf("failed to replace object: %w", err)
		}
		k.journal.Log("Replaced %q with kind %s", info.Name, kind)
		return written, nil
	}
	patch, patchType, err := patchOf(info, before, live)
	if err == nil {
		patch, err = unmark(patch, metadata(live))
	}
	if err != nil {
		return nil, fmt.Errorf("failed to create patch: %w", err)
	}
	if len(patch) == 0 {
		k.journal.Log("Looks like there are no changes for %s %q", kind, info.Name)
		return live, nil
	}
	document, err := withPreconditions(patch, metadata(live), unchanged)
	if err != nil {
		return nil, fmt.Errorf("failed to create patch: %w", err)
	}
	k.journal.Log("Patch %s %q in namespace %s", kind, info.Name, info.Namespace)
	written, err := helperFor(info).Patch(info.Namespace, info.Name, patchType, document, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot patch %q with kind %s: %w", info.Name, kind, err)
	}
	return written, nil
}

// patchOf returns Helm's three-way patch; empty without a change. Kinds without types in the library get a JSON merge
// patch.
func patchOf(info *resource.Info, before, live runtime.Object) (map[string]any, types.PatchType, error) {
	var documents [3][]byte
	for i, o := range []runtime.Object{before, info.Object, live} {
		var err error
		if documents[i], err = json.Marshal(o); err != nil {
			return nil, "", fmt.Errorf("write the object as JSON: %w", err)
		}
	}
	versioned := kube.AsVersioned(info)
	_, isUnstructured := versioned.(runtime.Unstructured)
	_, isDefinition := versioned.(*apiextensionsv1beta1.CustomResourceDefinition)
	patchType, document, err := types.MergePatchType, []byte(nil), error(nil)
	if isUnstructured || isDefinition {
		document, err = jsonmergepatch.CreateThreeWayJSONMergePatch(documents[0], documents[1], documents[2],
			mergepatch.RequireKeyUnchanged("apiVersion"), mergepatch.RequireKeyUnchanged("kind"),
			mergepatch.RequireMetadataKeyUnchanged("name"))
	} else {
		patchType = types.StrategicMergePatchType
		var lookup strategicpatch.PatchMetaFromStruct
		if lookup, err = strategicpatch.NewPatchMetaFromStruct(versioned); err == nil {
			document, err = strategicpatch.CreateThreeWayMergePatch(documents[0], documents[1], documents[2], lookup, true)
		}
	}
	if err != nil {
		return nil, "", err
	}
	patch, err := render.Decode(document)
	return patch, patchType, err
}

// unmark adds the removal of a deploy item's marks to a patch: the release takes its object over.
func unmark(patch map[string]any, live metav1.Object) (map[string]any, error) {
	if helm.OwnerOf(live).Item == "" {
		return patch, nil
	}
	if patch == nil {
		patch = map[string]any{}
	}
	err := unstructured.SetNestedField(patch, nil, "metadata", "annotations", owner.InstallationAnnotation)
	for _, label := range []string{owner.Label, v1alpha1.DeployItemLabel, v1alpha2.DeployItemLabel} {
		err = errors.Join(err, unstructured.SetNestedField(patch, nil, "metadata", "labels", label))
	}
	return patch, err
}

// withPreconditions returns a patch for this object alone; at another one it fails with a conflict.
func withPreconditions(patch map[string]any, live metav1.Object, unchanged bool) ([]byte, error) {
	fields, _ := patch["metadata"].(map[string]any)
	if fields == nil {
		fields = map[string]any{}
	}
	fields["uid"] = string(live.GetUID())
	if unchanged {
		fields["resourceVersion"] = live.GetResourceVersion()
	}
	patch["metadata"] = fields
	return json.Marshal(patch)
}

// deleteDropped deletes the objects missing in a revision. As with Helm an error holds up nothing: the job deletes the
// rest afterwards.
func (k *Client) deleteDropped(dropped kube.ResourceList) (kube.ResourceList, error) {
	var deleted kube.ResourceList
	var found []helm.Found
	for _, info := range k.deletable(dropped) {
		fate, err := k.remove(info, func(live metav1.Object) bool {
			return live.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy
		})
		switch {
		case err != nil:
			k.journal.Log("Failed to delete %q, err: %s", info.Name, err)
		case fate.Fate != "":
			found = append(found, fate)
		default:
			deleted = append(deleted, info)
		}
	}
	return deleted, k.tell(found)
}

// deletable leaves out the objects not to be deleted.
func (k *Client) deletable(resources kube.ResourceList) kube.ResourceList {
	return resources.Filter(func(info *resource.Info) bool { return !slices.Contains(k.req.Undeleted, objectKey(info)) })
}

// deleteAll deletes the objects of a release, those of one kind at once, as Helm's client does.
func (k *Client) deleteAll(resources kube.ResourceList) (*kube.Result, []error) {
	if k.req.Action == helm.Uninstall {
		resources = k.deletable(resources)
	}
	found, errs := make([]helm.Found, len(resources)), make([]error, len(resources))
	for from := 0; from < len(resources); {
		var group errgroup.Group
		group.SetLimit(concurrency)
		kind := resources[from].Mapping.GroupVersionKind
		for ; from < len(resources) && resources[from].Mapping.GroupVersionKind == kind; from++ {
			i := from
			group.Go(func() error {
				found[i], errs[i] = k.remove(resources[i], func(metav1.Object) bool { return false })
				return nil
			})
		}
		_ = group.Wait() // the errors are in errs
	}
	result := &kube.Result{}
	var left []helm.Found
	var failed []error
	for i, info := range resources {
		switch {
		case errs[i] != nil:
			failed = append(failed, k.journal.Failed(errs[i]))
		case found[i].Fate != "":
			left = append(left, found[i])
		default:
			result.Deleted = append(result.Deleted, info)
		}
	}
	if err := k.tell(left); err != nil {
		failed = append(failed, k.journal.Failed(err))
	}
	return result, failed
}

// remove deletes an object of the release, unless keep holds it, and its dependents in the background.
func (k *Client) remove(info *resource.Info, keep func(metav1.Object) bool) (helm.Found, error) {
	for try := range maxTries {
		o, err := k.read(info)
		if err != nil || o == nil {
			return helm.Found{}, err
		}
		live := metadata(o)
		if fate := k.fateInDeletion(live); fate != "" {
			return helm.Found{Key: objectKey(info), Fate: fate, Of: helm.OwnerOf(live)}, nil
		}
		if keep(live) {
			k.journal.Log("Skipping delete of %q due to annotation [%s=%s]", info.Name, kube.ResourcePolicyAnno, kube.KeepPolicy)
			return helm.Found{}, nil
		}
		uid, version, policy := live.GetUID(), live.GetResourceVersion(), metav1.DeletePropagationBackground
		conditions := &metav1.Preconditions{UID: &uid}
		if try < maxConflicts {
			conditions.ResourceVersion = &version
		}
		_, err = helperFor(info).DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{
			PropagationPolicy: &policy, Preconditions: conditions,
		})
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return helm.Found{}, nil
		case !apierrors.IsConflict(err):
			return helm.Found{}, err
		}
	}
	return helm.Found{}, fmt.Errorf("delete %q: %w", info.Name, errKeepsChanging)
}
