package helm3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// objectClient is Helm's client for objects, with these differences:
//
//   - It waits itself, see wait.go, and tells what is being done.
//   - It does not download schemas to check objects with them. API servers have done that for years, and Helm's own check does nothing
//     with those either.
//   - An update compares objects of all kinds with how they are in the cluster. Helm does so for built-in kinds, and for others only when
//     it takes them over, so that a change that somebody has made to a custom resource stays for ever.
//   - Objects of an earlier revision, or of one to be removed, whose kind is not served any more are gone: they hold up nothing.
//   - Logs of hooks are not fetched, since nobody knows what they hold.
type objectClient struct {
	*waiter

	o     *operation
	inner *kube.Client
	// hooks are those that objects were built from.
	hooks map[string]*release.Hook
	// applied is the revision whose objects were applied already, so that the hooks that run are those that come after.
	applied *release.Release
	// before is the failed installation that is being repeated; nil for none.
	before *release.Release
}

var (
	_ kube.Interface                    = (*objectClient)(nil)
	_ kube.InterfaceExt                 = (*objectClient)(nil)
	_ kube.InterfaceThreeWayMerge       = (*objectClient)(nil)
	_ kube.InterfaceDeletionPropagation = (*objectClient)(nil)
)

func newObjectClient(o *operation, c *cluster) (*objectClient, error) {
	clientSet, err := kubernetes.NewForConfig(c.work)
	if err != nil {
		return nil, fmt.Errorf("make a client of the target cluster: %w", err)
	}
	inner := kube.New(c)
	inner.Namespace = c.namespace
	inner.Log = o.journal.printf
	return &objectClient{
		waiter: newWaiter(o.ctx, clientSet, o.journal.printf), o: o, inner: inner, hooks: map[string]*release.Hook{},
	}, nil
}

// IsReachable sends no request: those that come next will tell.
func (k *objectClient) IsReachable() error { return k.o.ctx.Err() }

// Build makes objects of a manifest.
func (k *objectClient) Build(reader io.Reader, strict bool) (kube.ResourceList, error) {
	content, err := io.ReadAll(reader)
	if err != nil {
		return nil, fmt.Errorf("read a manifest: %w", err)
	}
	list, err := k.inner.Build(bytes.NewReader(content), false)
	// Helm asks for strictness where objects are going to be created. A rollback does not, but must not leave objects out.
	running, what := k.o.history.current()
	if err != nil && !strict && what != "rollback" && meta.IsNoMatchError(err) {
		list, err = k.buildServed(string(content))
	}
	if err != nil {
		k.o.note(err)
		return nil, err
	}
	k.recognise(running, string(content), list)
	return list, nil
}

// recognise notes of which hook a list is.
func (k *objectClient) recognise(running *release.Release, manifest string, list kube.ResourceList) {
	if running == nil || len(list) == 0 {
		return
	}
	for _, h := range running.Hooks {
		if h.Manifest == manifest {
			k.hooks[identity(list)] = h
			return
		}
	}
	delete(k.hooks, identity(list))
}

// identity tells lists of the same objects.
func identity(list kube.ResourceList) string {
	var b strings.Builder
	for _, info := range list {
		b.WriteString(info.ObjectName() + "/" + info.Namespace + " ")
	}
	return b.String()
}

// buildServed is Build without the objects whose kinds are not served. Those that are served in another version only are taken in that.
func (k *objectClient) buildServed(manifest string) (kube.ResourceList, error) {
	documents, err := parseManifest(manifest)
	if err != nil {
		return nil, err
	}
	var list kube.ResourceList
	for _, o := range objectsOf(documents) {
		content := unstructured.Unstructured{}
		if err := json.Unmarshal(o.JSON, &content.Object); err != nil {
			return nil, fmt.Errorf("read an object: %w", err)
		}
		kind := content.GroupVersionKind()
		served, err := k.served(kind)
		if meta.IsNoMatchError(err) {
			k.o.journal.printf("%s %q of the release is left alone: the cluster does not serve the kind %s any more",
				kind.Kind, content.GetName(), kind.GroupVersion())
			continue
		}
		if err != nil {
			return nil, err
		}
		content.SetGroupVersionKind(served)
		text, err := yaml.Marshal(content.Object)
		if err != nil {
			return nil, fmt.Errorf("write an object: %w", err)
		}
		infos, err := k.inner.Build(bytes.NewReader(text), false)
		if err != nil {
			return nil, err
		}
		list = append(list, infos...)
	}
	return list, nil
}

func (k *objectClient) served(kind schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	mapper := k.o.cluster.mapper
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = mapper.RESTMapping(kind.GroupKind())
	}
	if err != nil {
		return kind, err
	}
	return mapping.GroupVersionKind, nil
}

// Create creates objects: those of the release, of a hook, or definitions of kinds.
func (k *objectClient) Create(resources kube.ResourceList) (*kube.Result, error) {
	running, _ := k.o.history.current()
	if running == nil {
		k.o.progress("InstallDefinitions", "Installing definitions of the folder crds: "+enumerate(resources))
		return k.inner.Create(resources)
	}
	if h := k.hooks[identity(resources)]; h != nil {
		k.o.progress("RunHook", k.describe(h))
		result, err := k.inner.Create(resources)
		return result, k.hookFailed(h, err)
	}
	k.o.progress("CreateObjects", "Creating "+enumerate(resources))
	k.applied = running
	return k.inner.Create(resources)
}

// Update brings objects to the target, and deletes those that are not in it.
func (k *objectClient) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return k.UpdateThreeWayMerge(original, target, force)
}

// UpdateThreeWayMerge is Update.
func (k *objectClient) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	k.applied, _ = k.o.history.current()
	target = k.withoutGone(target)
	k.o.progress("UpdateObjects", "Updating "+enumerate(target))
	original, err := k.asBefore(original)
	if err != nil {
		return &kube.Result{}, err
	}
	for _, info := range target {
		// A merge refuses to change the version, which is not part of what is stored.
		before := original.Get(info)
		if before == nil || before == info {
			continue
		}
		if old, ok := before.Object.(*unstructured.Unstructured); ok {
			old.SetAPIVersion(info.Mapping.GroupVersionKind.GroupVersion().String())
		}
	}
	result, err := k.inner.UpdateThreeWayMerge(original, target, force)
	if result == nil {
		result = &kube.Result{} // Helm reads it even after an error
	}
	return result, err
}

// Delete deletes objects.
func (k *objectClient) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	return k.DeleteWithPropagationPolicy(resources, metav1.DeletePropagationBackground)
}

// DeleteWithPropagationPolicy deletes objects. Those of hooks are deleted as part of running them.
func (k *objectClient) DeleteWithPropagationPolicy(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	if k.hooks[identity(resources)] == nil && len(resources) > 0 {
		k.applied, _ = k.o.history.current()
		k.o.progress("DeleteObjects", "Deleting "+enumerate(resources))
	}
	result, errs := k.inner.DeleteWithPropagationPolicy(resources, policy)
	for _, err := range errs {
		k.o.note(err)
	}
	return result, errs
}

// withoutGone leaves out what has done its work and is gone.
func (k *objectClient) withoutGone(resources kube.ResourceList) kube.ResourceList {
	return resources.Filter(func(info *resource.Info) bool {
		key := object.Key{Group: info.Mapping.GroupVersionKind.Group, Kind: info.Mapping.GroupVersionKind.Kind, Name: info.Name}
		if info.Namespaced() {
			key.Namespace = info.Namespace
		}
		return !slices.Contains(k.o.req.Gone, key)
	})
}

// Wait waits until objects are ready.
func (k *objectClient) Wait(resources kube.ResourceList, timeout time.Duration) error {
	resources = k.withoutGone(resources)
	k.o.progress("WaitForObjects", "Waiting until these are ready: "+enumerate(resources))
	return k.noted(k.waitReady(resources, k.within(timeout), false))
}

// WaitWithJobs waits until objects are ready and Jobs are complete.
func (k *objectClient) WaitWithJobs(resources kube.ResourceList, timeout time.Duration) error {
	resources = k.withoutGone(resources)
	k.o.progress("WaitForObjects", "Waiting until these are ready: "+enumerate(resources))
	return k.noted(k.waitReady(resources, k.within(timeout), true))
}

// WaitForDelete waits until objects are gone.
func (k *objectClient) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	if k.hooks[identity(resources)] == nil && len(resources) > 0 {
		k.o.progress("WaitForDeletion", "Waiting until these are gone: "+enumerate(resources))
	}
	return k.noted(k.waitGone(resources, k.within(timeout)))
}

// WatchUntilReady waits until the objects of a hook are complete.
func (k *objectClient) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	h := k.hooks[identity(resources)]
	return k.hookFailed(h, k.waitComplete(resources, k.within(timeout)))
}

// WaitAndGetCompletedPodPhase is for tests of charts, which are not run.
func (k *objectClient) WaitAndGetCompletedPodPhase(name string, timeout time.Duration) (corev1.PodPhase, error) {
	return k.inner.WaitAndGetCompletedPodPhase(name, timeout)
}

// within bounds a wait; see helm.Options. Who looks once is told what is missing.
func (k *objectClient) within(timeout time.Duration) time.Duration {
	_, what := k.o.history.current()
	undoes := what == "rollback" || what == "delete" && k.o.req.Action != helm.Uninstall
	if until := k.o.req.Options.Until; !until.IsZero() && !undoes {
		timeout = min(timeout, max(time.Until(until), time.Second))
	}
	return timeout.Round(time.Millisecond)
}

func (k *objectClient) noted(err error) error {
	if err != nil {
		k.o.note(err)
	}
	return err
}

// hookFailed says which hook it is that has failed.
func (k *objectClient) hookFailed(h *release.Hook, err error) error {
	if err == nil {
		return nil
	}
	if h == nil {
		return k.noted(err)
	}
	failure := &helm.Error{Kind: helm.HookFailed, Template: h.Path, Message: fmt.Sprintf("%s has failed: %s", k.describe(h), tidy(err.Error()))}
	var timeout *helm.Error
	switch {
	case errors.As(err, &timeout):
		failure.Kind, failure.Message = timeout.Kind, fmt.Sprintf("%s: %s", k.describe(h), timeout.Message)
	case errors.As(err, new(apierrors.APIStatus)) && !apierrors.IsAlreadyExists(err):
		failure.Kind = kindOf(err)
	}
	return k.noted(failure)
}

// describe names a hook, and when it runs.
func (k *objectClient) describe(h *release.Hook) string {
	running, what := k.o.history.current()
	when := "pre"
	if running != nil && k.applied == running {
		when = "post"
	}
	return fmt.Sprintf("%s-%s hook %s %q of %s", when, what, h.Kind, h.Name, h.Path)
}

// enumerate names some of the objects.
func enumerate(resources kube.ResourceList) string {
	const most = 5
	var names []string
	for _, info := range resources[:min(most, len(resources))] {
		names = append(names, info.Mapping.GroupVersionKind.Kind+" "+info.Name)
	}
	if more := len(resources) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
