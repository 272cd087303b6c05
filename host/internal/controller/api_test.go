package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// api is an API server and what the tests do with it as another client.
type api struct {
	t      testing.TB
	admin  client.WithWatch
	config *rest.Config // nil for a fake one
}

// newFakeAPI returns a fake API server of a test's own.
func newFakeAPI(t testing.TB) *api {
	t.Helper()
	admin, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	return &api{t: t, admin: admin}
}

// newServerAPI returns the real API server. It is for tests of whole controllers, which have informers, and for those
// of what a fake one does not do: refuse what is too large, list page by page, and end namespaces. Other tests run at
// the same time: each has namespaces and types of its own. With -short the test is skipped.
func newServerAPI(t testing.TB) *api {
	t.Helper()
	plane, admin := controlPlane.ForTest(t)
	return &api{t: t, admin: admin, config: plane.Config}
}

// readFunc is called instead of a read of an object, with a function that does it.
type readFunc = func(obj client.Object, do func() error) error

// writeFunc is called instead of a write of an object; without a patch the object is created.
type writeFunc = func(obj client.Object, patch client.Patch, do func() error) error

// intercept has reads and writes of a client intercepted; nil for neither.
func intercept(read readFunc, write writeFunc) interceptor.Funcs {
	var funcs interceptor.Funcs
	if read != nil {
		funcs.Get = func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
		) error {
			return read(obj, func() error { return c.Get(ctx, key, obj, opts...) })
		}
	}
	if write == nil {
		return funcs
	}
	funcs.Create = func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		return write(obj, nil, func() error { return c.Create(ctx, obj, opts...) })
	}
	funcs.Patch = func(
		ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
	) error {
		return write(obj, patch, func() error { return c.Patch(ctx, obj, patch, opts...) })
	}
	funcs.SubResourcePatch = func(
		ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch,
		opts ...client.SubResourcePatchOption,
	) error {
		return write(obj, patch, func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
	}
	return funcs
}

// read reads an item anew; nil if it is gone.
func (a *api) read(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	a.t.Helper()
	fresh := &v1alpha1.DeployItem{}
	if err := a.admin.Get(a.t.Context(), client.ObjectKeyFromObject(item), fresh); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		a.t.Fatal(err)
	}
	return fresh
}

// setJob sets a job as a Landscaper does.
func (a *api) setJob(item *v1alpha1.DeployItem, now time.Time) string {
	a.t.Helper()
	jobID := uuid.NewString()
	a.patchStatus(item, fmt.Sprintf(
		`{"jobID":%q,"jobIDGenerationTime":%q,"transitionTimes":{"triggerTime":%[2]q,"initTime":null,"finishedTime":null}}`,
		jobID, now.UTC().Format(time.RFC3339)))
	return jobID
}

// patchStatus changes fields of an item's status.
func (a *api) patchStatus(item *v1alpha1.DeployItem, fields string) {
	a.t.Helper()
	fresh := a.read(item)
	var status map[string]any
	if err := json.Unmarshal([]byte(fields), &status); err != nil {
		a.t.Fatal(err)
	}
	status["observedGeneration"] = fresh.Status.ObservedGeneration
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.admin.Status().Patch(a.t.Context(), fresh, client.RawPatch(types.MergePatchType, raw)); err != nil {
		a.t.Fatal(err)
	}
}

// touch changes a label of an item, if it is there.
func (a *api) touch(item *v1alpha1.DeployItem) {
	a.t.Helper()
	a.patch(item, fmt.Sprintf(`{"metadata":{"labels":{"touched":%q}}}`, uuid.NewString()))
}

// annotate sets an annotation of an item.
func (a *api) annotate(item *v1alpha1.DeployItem, key, value string) {
	a.t.Helper()
	a.patch(item, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

// patch changes fields of an object, if it is there.
func (a *api) patch(object client.Object, fields string) {
	a.t.Helper()
	changed, _ := object.DeepCopyObject().(client.Object)
	err := a.admin.Patch(a.t.Context(), changed, client.RawPatch(types.MergePatchType, []byte(fields)))
	if client.IgnoreNotFound(err) != nil {
		a.t.Fatal(err)
	}
}

func (a *api) remove(object client.Object) {
	a.t.Helper()
	gone, _ := object.DeepCopyObject().(client.Object)
	if err := a.admin.Delete(a.t.Context(), gone); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) create(object client.Object) {
	a.t.Helper()
	if err := a.admin.Create(a.t.Context(), object); err != nil {
		a.t.Fatalf("create %T: %v", object, err)
	}
}

func (a *api) newNamespace() string {
	a.t.Helper()
	name := "controller-" + uuid.NewString()[:8]
	a.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	a.create(&v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: name}})
	return name
}

// newTarget creates a Target of a kind that Pergola does not know.
func (a *api) newTarget(namespace, name string) *v1alpha1.Target {
	a.t.Helper()
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec:       v1alpha1.TargetSpec{Type: "other", Configuration: raw(`{"password":"secret"}`)},
	}
	a.create(target)
	return target
}
