package intake_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// Rule (deploy-items.md#next-tries): Items count as repaired after a change of the content of their Target, Context,
// ConfigMap or Secret, and not after one of finalizers.
func TestRepaired(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "used", ResourceVersion: "1"}
	target := &v1alpha1.Target{ObjectMeta: meta}
	target.Spec.SecretRef = &v1alpha1.LocalSecretReference{Name: "login"}
	lsContext := &v1alpha1.Context{ObjectMeta: meta}
	lsContext.OCMConfig = &v1alpha1.LocalObjectReference{Name: "places"}
	lsContext.RegistryPullSecrets = []v1alpha1.LocalObjectReference{{Name: "registry"}}
	stored, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{target, lsContext} {
		object = object.DeepCopyObject().(client.Object)
		object.SetResourceVersion("")
		if err := stored.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	metadata := func(name string) *metav1.PartialObjectMetadata {
		m := &metav1.PartialObjectMetadata{ObjectMeta: meta}
		m.Name = name
		return m
	}
	touch := func(o client.Object) { o.SetAnnotations(map[string]string{"a": "b"}); o.SetResourceVersion("2") }
	write := func(o client.Object) { o.SetResourceVersion("2") }
	finalize := func(o client.Object) { o.SetFinalizers([]string{"a.example.org/b"}); o.SetResourceVersion("2") }
	byTarget, byContext := []string{"deploys"}, []string{"reads"}
	for name, tc := range map[string]struct {
		kind   string
		before client.Object
		change func(client.Object)
		want   []string
	}{
		"spec of a Target": {itemcache.KindTarget, target, func(o client.Object) {
			o.(*v1alpha1.Target).Spec.Type = "other"
		}, byTarget},
		"metadata of a Target": {itemcache.KindTarget, target, touch, nil},
		"content of a Context": {itemcache.KindContext, lsContext, func(o client.Object) {
			o.(*v1alpha1.Context).RegistryPullSecrets = nil
		}, byContext},
		"metadata of a Context": {itemcache.KindContext, lsContext, touch, nil},
		"Secret of a Target":    {"Secret", metadata("login"), write, byTarget},
		"Secret of a Context":   {"Secret", metadata("registry"), write, byContext},
		"another Secret":        {"Secret", metadata("other"), write, nil},
		"finalizer of a Secret": {"Secret", metadata("login"), finalize, nil},
		"resync of a Secret":    {"Secret", metadata("login"), func(client.Object) {}, nil},
		"ConfigMap":             {intake.KindConfigMap, metadata("places"), write, byContext},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRouted(t, true)
			deploys, reads := typedItem("deploys", "one"), typedItem("reads", "one")
			deploys.Spec.Target, reads.Spec.Context = &v1alpha1.ObjectReference{Name: "used", Namespace: "ns"}, "used"
			r.cached(itemcache.Slim(deploys), itemcache.Slim(reads))
			var got []string
			references := &intake.References{
				Router: r.Router, Reader: stored, All: true, Log: slog.New(slog.DiscardHandler),
				Repaired: func(users []types.NamespacedName) {
					for _, user := range users {
						got = append(got, user.Name)
					}
				},
			}
			after := tc.before.DeepCopyObject().(client.Object)
			tc.change(after)
			handler := intake.Handler(t.Context(), references, tc.kind)
			handler.OnUpdate(tc.before, after)
			if diff := cmp.Diff(tc.want, slices.Sorted(slices.Values(got))); diff != "" {
				t.Errorf("repaired items (-want +got):\n%s", diff)
			}
			got = nil
			handler.OnAdd(after, true)
			if got != nil {
				t.Errorf("an object of the initial list repairs %v", got)
			}
		})
	}
}
