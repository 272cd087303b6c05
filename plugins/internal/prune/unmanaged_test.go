package prune_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// all returns a group that deletes all objects of the resources, with further fields.
func all(fields string, resources ...string) string {
	return fmt.Sprintf(`[{"customResourceGroup":{"resources":[%s],"deleteAllResources":true%s}}]`, strings.Join(resources, ","), fields)
}

// inNamespace is a resource that selects objects of a kind of v1 in a namespace, with further fields.
func inNamespace(kind, namespace, fields string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"namespaces":[%q]%s}`, kind, namespace, fields)
}

// TestKept: what an object says on the target keeps it also from a group that deletes whatever it finds; it is asked
// instead of the policy.
func TestKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kept, dropped := w.configMap("kept"), w.configMap("dropped")
	dropped.Policy = managedresource.PolicyKeep
	w.patch(configMaps, w.Namespace, "kept", `{"metadata":{"annotations":{"keep":"yes"}}}`)
	d := w.deletion(all("", inNamespace("configmaps", w.Namespace, "")), kept, dropped)
	d.Kept = func(_ managedresource.ManagedResourceStatus, live metav1.Object) string {
		return live.GetAnnotations()["keep"]
	}
	if got := left(w.mustFinish(d)); !slices.Equal(got, []string{"ConfigMap " + w.Namespace + "/kept: yes"}) {
		t.Errorf("expected one object to be left, but found %v", got)
	}
	w.mustBe("there", kept)
	w.mustBe("gone", dropped)
}

func TestDeleteAllResources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		groups func(w *world) string
		// remaining are the names of the ConfigMaps that are left; there are managed, others and kube-root-ca.crt.
		remaining []string
		elsewhere string
	}{
		// Rule (manifest.md#deletion): `deleteAllResources` also deletes objects not managed by the item.
		"all in a namespace": {
			"whoever they belong to; what Kubernetes would create again at once does not count",
			func(w *world) string { return all("", inNamespace("configmaps", w.Namespace, "")) },
			[]string{"kube-root-ca.crt"}, "there",
		},
		"by name": {
			"names select", func(w *world) string {
				return all("", inNamespace("ConfigMap", w.Namespace, `,"names":["managed","other-1"]`))
			},
			[]string{"kube-root-ca.crt", "other-2"}, "there",
		},
		"in two namespaces": {
			"namespaces select",
			func(w *world) string {
				return all("", inNamespace("configmaps", w.Namespace, ""), inNamespace("configmap", w.Namespace+"-elsewhere", ""))
			},
			[]string{"kube-root-ca.crt"}, "gone",
		},
		"another kind, and one that is unknown": {
			"managed objects that no group takes are left",
			func(w *world) string {
				return all("", inNamespace("Secret", w.Namespace, ""), `{"apiVersion":"gone.example.org/v1","kind":"Relic"}`)
			},
			[]string{"kube-root-ca.crt", "managed", "other-1", "other-2"}, "there",
		},
		"a namespace of a cluster-scoped kind": {
			"nothing is in it", func(w *world) string { return all("", inNamespace("Namespace", w.Namespace, "")) },
			[]string{"kube-root-ca.crt", "managed", "other-1", "other-2"}, "there",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createNamespace(w.Namespace + "-elsewhere")
			elsewhere := w.create(configMaps, w.Namespace+"-elsewhere", "a", nil)
			managed := w.configMap("managed")
			for _, object := range []string{"other-1", "other-2", "kube-root-ca.crt"} {
				w.configMap(object)
			}
			w.mustFinish(w.deletion(c.groups(w), managed))
			if diff := cmp.Diff(c.remaining, w.remaining(configMaps)); diff != "" {
				t.Errorf("%s: remaining: -want +got:\n%s", c.reason, diff)
			}
			if got := w.state(elsewhere); got != c.elsewhere {
				t.Errorf("%s: expected the object elsewhere to be %s, but it is %s", c.reason, c.elsewhere, got)
			}
		})
	}
}

// TestDeleteAllResourcesAndManagedObjects: the managed objects of such a group are deleted as their entries say, but
// whoever they belong to.
// Rule (manifest.md#deletion): `deleteAllResources` leaves objects with the policy `keep`.
func TestDeleteAllResourcesAndManagedObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := owner.Owner{Namespace: w.Namespace, Name: "other", UpstreamLabel: upstreamLabel}
	kept, spared, takenOver, exchanged, prepared := w.configMap("kept"), w.configMap("spared"), w.configMap("taken-over"),
		w.configMap("exchanged"), w.configMap("prepared", hold)
	kept.Policy = managedresource.PolicyKeep
	w.patch(configMaps, w.Namespace, "taken-over", `{"metadata":{"labels":{"`+owner.Label+`":"`+other.Labels()[owner.Label]+`"}}}`)
	exchanged.Resource.UID = "7f5c0e5e-0000-0000-0000-000000000000"
	prepared.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(`{"metadata":{"finalizers":null}}`)}

	d := w.deletion(all("", inNamespace("configmaps", w.Namespace, "")), kept, takenOver, exchanged, prepared)
	d.Spare = map[object.Key]bool{object.KeyOfReference(spared.Resource): true}
	result := w.mustFinish(d)
	if diff := cmp.Diff([]string{"kept", "spared"}, w.remaining(configMaps)); diff != "" {
		t.Errorf("remaining: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ConfigMap " + w.Namespace + "/kept: policy keep"}, left(result)); diff != "" {
		t.Errorf("left: -want +got:\n%s", diff)
	}
}

// TestRefusedPatchSparesTheObject: an object that could not be prepared is not deleted as one of all.
// Rule (manifest.md#deletion): An object with a failed preparation is not deleted as one of all.
func TestRefusedPatchSparesTheObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managed := w.configMap("managed")
	w.configMap("other")
	managed.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(`{"data":7}`)}
	_, err := w.run(w.deletion(all("", inNamespace("configmaps", w.Namespace, "")), managed))
	if len(sdk.Codes(err)) != 1 {
		t.Errorf("expected a configuration error, but found %v", err)
	}
	if diff := cmp.Diff([]string{"managed"}, w.remaining(configMaps)); diff != "" {
		t.Errorf("remaining: -want +got:\n%s", diff)
	}
}

// TestDeleteAllResourcesUntilNoneIsLeft: the deletion is unfinished until everything is gone.
func TestDeleteAllResourcesUntilNoneIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managed, secret := w.configMap("managed"), w.create(secrets, w.Namespace, "other", withFinalizers(hold))
	groups := `[{"predefinedResourceGroup":{"type":"namespaced-resources"}},` +
		strings.TrimPrefix(all("", inNamespace("secrets", w.Namespace, "")), "[")

	result := w.mustRun(w.deletion(groups, managed))
	w.mustWaitFor(result, "Secret "+w.Namespace+"/other", "being deleted since", hold)
	w.mustBe("gone", managed)
	if !result.Unfinished || len(result.Seen) != 1 || result.Seen[0].Key.Name != "other" {
		t.Errorf("expected the deletion to be unfinished while the Secret is waited for, but found %+v", result)
	}
	w.patch(secrets, w.Namespace, "other", `{"metadata":{"finalizers":null}}`)
	w.mustFinish(w.deletion(groups, managed))
	w.mustBe("gone", secret)
}

func TestDeleteAllResourcesThatAreClusterScoped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managed, role := w.configMap("managed"), w.role("other")
	w.mustFinish(w.deletion(all("", fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","names":[%q]}`, role.Resource.Name)), managed))
	w.mustBe("there", managed)
	w.mustBe("gone", role)
}

// Rule (manifest.md#deletion): `deleteAllResources` works on another Target.
func TestDeleteAllResourcesOnAnotherTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unknown := errors.New("there is no Target of this name")
	byAnotherName := rest.CopyConfig(plugintest.Config())
	byAnotherName.Host = strings.Replace(byAnotherName.Host, "127.0.0.1", "localhost", 1)
	clients := map[string]*target.Client{"alias": w.Client(plugintest.Config()), "other": w.Client(byAnotherName)}
	w.lookup = func(_ context.Context, name string) (*target.Client, error) {
		if client := clients[name]; client != nil {
			return client, nil
		}
		return nil, unknown
	}
	// On another target the key of a kept object means nothing; on the own one it does, by whatever name the Target
	// goes.
	kept := w.configMap("kept")
	kept.Policy = managedresource.PolicyKeep
	result, err := w.run(w.deletion(all(`,"targetName":"missing"`, inNamespace("configmaps", w.Namespace, "")), kept))
	if !errors.Is(err, unknown) || !strings.Contains(err.Error(), "deletionGroups[0].customResourceGroup.targetName") || len(result.Left) > 0 {
		t.Errorf("expected an error about the Target, but found %v and %+v", err, result)
	}
	w.mustFinish(w.deletion(all(`,"targetName":"alias"`, inNamespace("configmaps", w.Namespace, "")), kept))
	if found := w.remaining(configMaps); !slices.Equal(found, []string{"kept"}) {
		t.Errorf("expected the kept object alone to be left, but found %q", found)
	}
	w.requested()
	w.mustFinish(w.deletion(all(`,"targetName":"other"`, inNamespace("configmaps", w.Namespace, "")), kept))
	if found := w.remaining(configMaps); len(found) > 0 {
		t.Errorf("expected all objects on the other target to be gone, but found %q", found)
	}
}

func TestErrorsOfDeleteAllResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	managed := w.create(secrets, w.Namespace, "a", nil)
	w.configMap("bad")
	w.configMap("good")
	w.Requests.Fail(failingFor("bad"))
	groups := all("", inNamespace("configmaps", w.Namespace, ""), inNamespace("secrets", w.Namespace, ""))
	result, err := w.run(w.deletion(groups, managed))
	if err == nil || !strings.Contains(err.Error(), "delete ConfigMap "+w.Namespace+"/bad: ") || !result.Unfinished {
		t.Errorf("expected an error of the object, and more to do, but found %v and %+v", err, result)
	}
	w.mustBe("gone", managed)
	if diff := cmp.Diff([]string{"bad"}, w.remaining(configMaps)); diff != "" {
		t.Errorf("remaining: -want +got:\n%s", diff)
	}

	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/configmaps") {
			return errors.New("cut off")
		}
		return nil
	})
	other := w.create(secrets, w.Namespace, "b", nil)
	_, err = w.run(w.deletion(groups, managed))
	w.mustBe("gone", other)
	if err == nil || !strings.Contains(err.Error(), "delete the objects of deletionGroups[0].customResourceGroup.resources[0]: ") {
		t.Errorf("expected an error of the list, but found %v", err)
	}
}

// TestManyObjects: objects come in pages, a call does not make too many changes, and what is waited for is shown in
// short.
// Rule (manifest.md#deletion): The condition of a deletion shows the remaining objects.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count = 703
	managed := w.role("managed")
	var creators sync.WaitGroup
	const parallel = 8
	for first := range parallel {
		creators.Go(func() {
			for i := first; i < count; i += parallel {
				o := w.object(configMaps, w.Namespace, fmt.Sprintf("object-%d", i), withFinalizers(hold))
				if _, err := w.in(configMaps, w.Namespace).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	creators.Wait()
	groups := all("", inNamespace("configmaps", w.Namespace, ""))
	texts, _ := w.diff(w.deletion(groups, managed))
	if len(texts) != 502 || !strings.HasPrefix(texts[500], "delete more objects of deletionGroups[0].customResourceGroup: ") {
		t.Errorf("expected a page of the objects, and that there are more, but found %d changes", len(texts))
	}
	result := w.mustRun(w.deletion(groups, managed))
	if deletions := w.deletions(); deletions != 500 {
		t.Errorf("expected a page of the objects to be deleted, but found %d deletions", deletions)
	}
	if len(result.Waiting) != 11 || result.Waiting[10] != "at least 490 more objects of deletionGroups[0].customResourceGroup" || len(result.Seen) != 10 {
		t.Errorf("expected ten objects and how many more there are, but found %q", result.Waiting)
	}
	result = w.mustRun(w.deletion(groups, managed))
	if deletions := w.deletions(); deletions != count-500 {
		t.Errorf("expected the rest of the objects to be deleted, but found %d deletions", deletions)
	}
	if len(result.Waiting) != 11 || result.Waiting[10] != "693 more objects of deletionGroups[0].customResourceGroup" {
		t.Errorf("expected ten objects and how many more there are, but found %q", result.Waiting)
	}
	force := all(`,"forceDelete":true`, inNamespace("configmaps", w.Namespace, ""))
	if result := w.mustRun(w.deletion(force, managed)); len(result.Waiting) == 0 {
		t.Error("expected that not all finalizers are removed in one call")
	}
	w.mustFinish(w.deletion(force, managed))
	if found := w.remaining(configMaps); len(found) > 0 {
		t.Errorf("expected all objects to be gone, but found %d", len(found))
	}
}

// deletions returns how many deletions were sent since it was called last.
func (w *world) deletions() int {
	w.Helper()
	return strings.Count(strings.Join(w.requested(), " "), http.MethodDelete)
}

// TestKindGoesWhileAllOfItAreDeleted: the client has known the kind.
func TestKindGoesWhileAllOfItAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, things := w.crd("Thing")
	w.create(things, w.Namespace, "a", map[string]any{"kind": "Thing"})
	managed := w.configMap("managed", hold)
	groups := all("", fmt.Sprintf(`{"apiVersion":%q,"kind":"thing"}`, things.GroupVersion()), inNamespace("configmaps", w.Namespace, ""))
	w.mustRun(w.deletion(groups, managed))
	w.delete(crds, "", definition.Resource.Name)
	w.patch(configMaps, w.Namespace, "managed", `{"metadata":{"finalizers":null}}`)
	w.Eventually("the API server to have forgotten the kind", func() bool {
		result, err := w.run(w.deletion(groups, managed))
		return err == nil && len(result.Waiting) == 0
	})
}
