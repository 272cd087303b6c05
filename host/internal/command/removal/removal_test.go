package removal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// held is what a host holds in two namespaces, in the order in which it goes.
func held() []client.Object {
	at := func(namespace, name string, finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}
	}
	pod := &corev1.Pod{ObjectMeta: at("pergola-pods", "shop-web", "f")}
	pod.Labels, pod.Annotations = podsOfContainers, map[string]string{annotationNamespace: "shop"}
	return []client.Object{
		&v1alpha1.DeployItem{ObjectMeta: at("shop", "web", v1alpha1.Finalizer)},
		&v1alpha1.DeployItem{ObjectMeta: at("garden", "rose", v1alpha1.Finalizer)},
		&v1alpha1.SyncObject{ObjectMeta: at("shop", "helm-1"), Spec: v1alpha1.SyncObjectSpec{Kind: "DeployItem"}},
		&v1alpha1.Target{ObjectMeta: at("shop", "here", inuse.Finalizer)},
		pod,
	}
}

func removerOf(t *testing.T, objects ...client.Object) (*remover, *bytes.Buffer) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	progress := &bytes.Buffer{}
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).Build()
	return &remover{Client: c, namespaces: []string{""}, progress: progress, timeout: time.Minute}, progress
}

// The host of the test lets one object go after each look.
// Rule (operators-guide.md#uninstall): `pergola remove` deletes all DeployItems with what they deployed or without, and
// waits until no lock, finalizer and Pod of the host is left.
func TestRemove(t *testing.T) {
	t.Parallel()
	for _, leave := range []bool{false, true} {
		t.Run(fmt.Sprintf("leave %t", leave), func(t *testing.T) {
			t.Parallel()
			all := held()
			r, progress := removerOf(t, all...)
			r.leave = leave
			host := &host{Client: r.Client, left: slices.Clone(all), annotated: map[string]string{}}
			r.Client = host
			if err := r.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			want := map[bool]string{true: "true"}[leave]
			if host.annotated["web"] != want || host.annotated["rose"] != want {
				t.Errorf("expected the annotation %q, but found %v", want, host.annotated)
			}
			for _, part := range []string{
				"2 DeployItems: garden/rose (", "1 DeployItems: garden/rose", "waits for 1 SyncObjects: shop/helm-1; 1 objects",
				"host.pergola.dev/in-use: Target shop/here",
				"waits for 1 objects of the container deployer: Pod pergola-pods/shop-web",
			} {
				if !strings.Contains(progress.String(), part) {
					t.Errorf("expected %q, but found\n%s", part, progress)
				}
			}
		})
	}
}

// host lets the next object go at each second look.
type host struct {
	client.Client

	left      []client.Object
	looks     int
	annotated map[string]string // items by name, as they go
}

func (h *host) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	_, items := list.(*v1alpha1.DeployItemList)
	if err := h.Client.List(ctx, list, options...); err != nil || !items || len(h.left) == 0 {
		return err
	}
	if h.looks++; h.looks%2 == 0 {
		return nil
	}
	next := h.left[0]
	if err := h.Get(ctx, client.ObjectKeyFromObject(next), next); err != nil {
		return err
	}
	if item, ok := next.(*v1alpha1.DeployItem); ok {
		if item.DeletionTimestamp == nil {
			return nil
		}
		h.annotated[item.Name] = item.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation]
	}
	h.left = h.left[1:]
	next.SetFinalizers(nil)
	if err := h.Update(ctx, next); err != nil {
		return err
	}
	return client.IgnoreNotFound(h.Delete(ctx, next))
}

// Rule (operators-guide.md#uninstall): At the end of its time `pergola remove` says what is left.
func TestRemoveSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	r, _ := removerOf(t, held()...)
	r.timeout = time.Nanosecond
	err := r.run(t.Context())
	const want = "no host has ended this within 1ns: 2 DeployItems: garden/rose ("
	if cli.Code(err) != cli.ExitTimeout || !strings.Contains(err.Error(), want) {
		t.Errorf("expected %q, but found %d, %v", want, cli.Code(err), err)
	}
}

// Rule (operators-guide.md#uninstall): Beside a Landscaper `pergola remove` changes nothing.
func TestRemoveBesideLandscaper(t *testing.T) {
	t.Parallel()
	r, _ := removerOf(t, held()...)
	r.RESTMapper().(*meta.DefaultRESTMapper).Add(v1alpha1.GroupVersion.WithKind("Installation"), meta.RESTScopeNamespace)
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "delete the Installations instead") {
		t.Errorf("expected a refusal, but found: %v", err)
	}
	items := &v1alpha1.DeployItemList{}
	if err := r.List(t.Context(), items); err != nil || len(items.Items) != 2 || items.Items[0].DeletionTimestamp != nil {
		t.Errorf("expected the items as they were, but found %v, %v", items.Items, err)
	}
}

// Rule (operators-guide.md#uninstall): Beside hosts for some namespaces `pergola remove` changes nothing, unless it is
// told which.
func TestRemoveBesideHostsForSome(t *testing.T) {
	t.Parallel()
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("host"), LeaseDurationSeconds: ptr.To[int32](60),
		RenewTime: &metav1.MicroTime{Time: time.Now()},
	}}
	lease.Namespace, lease.Name, lease.Labels = "hosts", "a", map[string]string{hostlease.Label: "a"}
	hostlease.NoteNamespaces(lease, []string{"shop"})
	r, _ := removerOf(t, append(held(), lease)...)
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "the namespaces shop alone") {
		t.Errorf("expected a refusal, but found: %v", err)
	}
	r.namespaces, r.timeout = []string{"shop"}, time.Nanosecond
	if err := r.run(t.Context()); cli.Code(err) != cli.ExitTimeout {
		t.Errorf("expected it to wait for the host, but found: %v", err)
	}
	for name, deleted := range map[string]bool{"shop/web": true, "garden/rose": false} {
		item, key := &v1alpha1.DeployItem{}, client.ObjectKey{}
		key.Namespace, key.Name, _ = strings.Cut(name, "/")
		if err := r.Get(t.Context(), key, item); err != nil || (item.DeletionTimestamp != nil) != deleted {
			t.Errorf("%s: expected it to be deleted: %t, but found %v, %v", name, deleted, item.DeletionTimestamp, err)
		}
	}
}

// Rule (operators-guide.md#uninstall): With --namespaces it waits for what these hold alone.
func TestRemoveWaitsForItsNamespaces(t *testing.T) {
	t.Parallel()
	pod := held()[4]
	for namespace, want := range map[string]int{"": 1, "shop": 1, "garden": 0} {
		r, _ := removerOf(t, pod)
		r.namespaces = []string{namespace}
		if left, err := r.left(t.Context()); err != nil || len(left) != want {
			t.Errorf("%q: found %v, %v", namespace, left, err)
		}
	}
}

// Rule (operators-guide.md#uninstall): An error of the API server does not end the wait.
func TestRemoveEndures(t *testing.T) {
	t.Parallel()
	r, progress := removerOf(t)
	looks := 0
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if looks++; looks < 3 {
			return errors.New("connection refused")
		}
		return c.List(ctx, list, options...)
	}})
	if left, err := r.await(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("found %v, %v", left, err)
	}
	if want := "waits for list DeployItems: connection refused\n"; progress.String() != want {
		t.Errorf("expected %q, but found %q", want, progress)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for want, names := range map[string][]string{
		"": nil, "1 Pods: a": {"a"}, "7 Pods: a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := describe("Pods", names, 0); got != want {
			t.Errorf("expected %q, but found %q", want, got)
		}
	}
	if got := describe("Pods", []string{"a"}, 3); got != "4 Pods: a and 3 more" {
		t.Errorf("found %q", got)
	}
}

// Which way is meant has to be said.
func TestRemoveNeedsAWay(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"remove"}, {"remove", "--with-deployed", "--leave-deployed"}} {
		if out, err := commandtest.Of(NewCommand).Run(t, args...); cli.Code(err) == 0 ||
			!strings.Contains(err.Error(), "with-deployed") {
			t.Errorf("%v: expected an error, but found %v, %s", args, err, out)
		}
	}
}
