// Package objects is Helm's client for objects: it creates, updates and deletes them, runs hooks, and waits. Objects of
// other owners are left alone.
package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/render"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/storage"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// Client is Helm's client for objects, with these differences:
//
//   - It reports its steps, and waits no longer than the operation lasts.
//   - It does not download schemas for checks. API servers have had such checks for years, and Helm's own check
//     ignores the schemas, too.
//   - An update compares objects of all kinds with their state in the cluster. Helm does so for built-in kinds, and
//     for others only in a takeover: another client's change to a custom resource would stay for ever.
//   - An object of others is neither changed nor deleted, and holds up nothing.
//   - To undo an operation it deletes the objects created by it, and not those taken over.
//   - Objects of an earlier revision, or of one under removal, hold up nothing if their kind is not served any more.
//   - Logs of hooks are not fetched: they may hold anything.
type Client struct {
	ctx      context.Context // that of the request
	req      *helm.Request
	observer helm.Observer
	journal  *journal.Journal
	history  *storage.History
	getter   genericclioptions.RESTClientGetter
	inner    *kube.Client
	// hooks has the hooks of built lists, by the first object.
	hooks map[*resource.Info]*release.Hook
	// applied is a revision with all objects applied, so the next hooks are its post hooks.
	applied *release.Release
	// before has the manifests of the failed installations before this one, the last one first; empty for none.
	before string
	// created has the UIDs of the objects created by this operation; left has the objects not to be touched from now on.
	created map[types.UID]bool
	left    map[object.Key]bool

	autoscalers *ignore.Autoscalers
}

var (
	_ kube.Interface              = (*Client)(nil)
	_ kube.InterfaceExt           = (*Client)(nil)
	_ kube.InterfaceThreeWayMerge = (*Client)(nil)
)

// New returns a client for the objects of a request; getter makes its clients.
func New(
	ctx context.Context, req *helm.Request, observer helm.Observer, j *journal.Journal, h *storage.History,
	getter genericclioptions.RESTClientGetter,
) *Client {
	inner := kube.New(getter)
	inner.Namespace, inner.Log = req.Release.Namespace, j.Log
	return &Client{
		ctx: ctx, req: req, observer: observer, journal: j, history: h, getter: getter, inner: inner,
		hooks: map[*resource.Info]*release.Hook{}, created: map[types.UID]bool{}, left: map[object.Key]bool{},
	}
}

// IsReachable sends no request: the next ones fail without a server.
func (k *Client) IsReachable() error { return k.ctx.Err() }

// Build makes objects of a manifest.
func (k *Client) Build(reader io.Reader, strict bool) (kube.ResourceList, error) {
	content, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	list, err := k.inner.Build(bytes.NewReader(content), false)
	// Helm asks for strictness before it creates objects. A rollback does not, but must not leave objects out.
	running, what := k.history.Current()
	if !strict && what != "rollback" && meta.IsNoMatchError(err) {
		list, err = k.buildServed(string(content))
	}
	h := hookWith(running, string(content))
	if err != nil {
		return nil, k.hookFailed(h, helm.ClusterFailed, err)
	}
	if h != nil && len(list) > 0 {
		k.hooks[list[0]] = h
	}
	return list, nil
}

// buildServed is Build without the objects of unserved kinds.
func (k *Client) buildServed(manifest string) (kube.ResourceList, error) {
	objects, err := render.Objects("", manifest)
	if err != nil {
		return nil, err
	}
	var list kube.ResourceList
	for _, o := range objects {
		infos, err := k.inner.Build(bytes.NewReader(o.JSON), false)
		if meta.IsNoMatchError(err) {
			k.journal.Log("an object of the release is left alone, since its kind is not served any more: %v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, infos...)
	}
	return list, nil
}

// Create creates objects: those of the release or of a hook, or definitions of kinds.
func (k *Client) Create(resources kube.ResourceList) (*kube.Result, error) {
	running, _ := k.history.Current()
	if running == nil {
		k.journal.Progress("InstallDefinitions", "Installing definitions of the folder crds: %s", enumerate(resources))
		result, err := k.inner.Create(resources)
		if apierrors.IsAlreadyExists(err) { // Helm leaves it alone
			return result, err
		}
		return result, k.journal.Failed(err)
	}
	if h := k.hookOf(resources); h != nil {
		if k.history.Attempt.Skips(h) {
			return &kube.Result{}, nil
		}
		k.warnOfRepeated(h, resources)
		k.journal.Progress("RunHook", "%s", k.describe(h))
		result, err := k.inner.Create(resources)
		otherwise := helm.ClusterFailed
		if apierrors.IsAlreadyExists(err) { // left there by its policy
			otherwise, err = helm.ChartHookFailed, errors.New(err.Error())
		}
		return result, k.hookFailed(h, otherwise, err)
	}
	if k.before != "" {
		return k.Update(nil, resources, false)
	}
	k.journal.Progress("CreateObjects", "Creating %s", enumerate(resources))
	k.applied = running
	result, err := k.inner.Create(resources)
	k.noteCreated(resources)
	return result, k.journal.Failed(err)
}

// Update brings objects to the target state, and deletes the original ones missing in it.
func (k *Client) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return k.UpdateThreeWayMerge(original, target, force)
}

// UpdateThreeWayMerge is Update.
func (k *Client) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	k.applied, _ = k.history.Current()
	target = k.withoutGone(target)
	k.journal.Progress("UpdateObjects", "Updating %s", enumerate(target))
	if k.before != "" {
		var err error
		if original, err = k.asBefore(original, target); err != nil {
			return &kube.Result{}, k.journal.Failed(err)
		}
	}
	for _, info := range target {
		// A merge refuses a change of the version; it is not part of the stored object.
		if before := original.Get(info); before != nil && before != info {
			if old, ok := before.Object.(*unstructured.Unstructured); ok {
				old.SetAPIVersion(info.Mapping.GroupVersionKind.GroupVersion().String())
			}
		}
	}
	result, err := k.update(original, target, force)
	return result, k.journal.Failed(err)
}

// Replace has the operation replace failed installations, in ascending order, and remove their objects.
func (k *Client) Replace(failed []*release.Release) {
	for _, r := range slices.Backward(failed) {
		k.before += "---\n" + r.Manifest + "\n"
	}
}

// RemoveReplaced removes the objects of replaced installations where Helm has not: it does not update for a chart
// without objects.
func (k *Client) RemoveReplaced() error {
	if k.before == "" || k.applied != nil {
		return nil
	}
	_, err := k.Update(nil, nil, false)
	return err
}

// asBefore returns the objects as failed installations had them. Compared with them, Helm removes the objects of those
// installations alone. existing are the objects to be installed and existing already.
func (k *Client) asBefore(existing, target kube.ResourceList) (kube.ResourceList, error) {
	before, err := k.buildServed(k.before)
	if err != nil {
		return nil, fmt.Errorf("read the objects of failed installations: %w", err)
	}
	original := append(before.Intersect(existing), existing.Difference(before)...)
	for _, info := range before.Difference(target) {
		err := info.Get()
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the objects of failed installations: %w", err)
		}
		if o, ok := info.Object.(metav1.Object); ok && k.isOurs(o) && k.isKnown(o) {
			original = append(original, info)
		}
	}
	return original, nil
}

// Delete deletes objects, and their dependents in the background. Those of hooks are deleted for a run.
func (k *Client) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	h := k.hookOf(resources)
	switch {
	case len(resources) == 0: // all of unserved kinds: an error for Helm's client
		return &kube.Result{}, nil
	case h == nil:
		k.applied, _ = k.history.Current()
		k.journal.Progress("DeleteObjects", "Deleting %s", enumerate(resources))
		return k.deleteAll(resources)
	case k.history.Attempt.IsDone(h): // Helm deletes it before its creation
		return &kube.Result{}, nil
	}
	k.warnOfRepeated(h, resources)
	result, errs := k.inner.Delete(resources)
	for i, err := range errs {
		errs[i] = k.hookFailed(h, helm.ClusterFailed, err) // Helm keeps only its text
	}
	return result, errs
}

// withoutGone leaves out completed objects gone since.
func (k *Client) withoutGone(resources kube.ResourceList) kube.ResourceList {
	return resources.Filter(func(info *resource.Info) bool { return !slices.Contains(k.req.Gone, objectKey(info)) })
}

// enumerate names some of the objects.
func enumerate(resources kube.ResourceList) string {
	var names []string
	for _, info := range resources {
		names = append(names, info.Mapping.GroupVersionKind.Kind+" "+info.Name)
	}
	return object.Enumerate(names, ", ", 5)
}
