package observe_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

func TestObserve(t *testing.T) {
	t.Parallel()
	const get, dry = "GET", "dry PATCH"
	patch := func(resource plugintest.Resource, name, patch string) func(*world) {
		return func(w *world) { w.Patch(resource, name, patch) }
	}
	for name, c := range map[string]struct {
		before   func(*world)
		want     []string
		requests []string
	}{
		"unchanged": {nil, nil, []string{get, get}},
		"changed": {
			patch(configMaps, "a", `{"data":{"key":"other","theirs":"x"}}`),
			[]string{"ConfigMap a: data.key"}, []string{get, get, dry},
		},
		"removed with its map": {
			patch(configMaps, "a", `{"data":{"key":null}}`), []string{"ConfigMap a: data"}, []string{get, get, dry},
		},
		"fields of others": {
			patch(configMaps, "a", `{"data":{"theirs":"x"},"metadata":{"labels":{"a":"b"}}}`), nil, []string{get, get},
		},
		"deleted": {
			func(w *world) { w.Delete(configMaps, "a") }, []string{"ConfigMap a is missing"}, []string{get, get},
		},
		"created anew": {
			func(w *world) {
				w.Delete(configMaps, "a")
				w.write(configMaps, w.ConfigMap("a", fields{"key": "value"}))
			}, nil, []string{get, get},
		},
		// The spelling of other fields does not count.
		"replicas": {
			patch(deployments, "b", `{"spec":{"replicas":7}}`),
			[]string{"Deployment b: spec.replicas"}, []string{get, get, get, dry},
		},
		// What is spelt differently is named as well.
		"refused repair": {
			func(w *world) {
				w.Patch(deployments, "b", `{"spec":{"replicas":7}}`)
				w.refuse(http.MethodPatch)
			},
			[]string{"Deployment b: spec.replicas, spec.template.spec.containers[0].resources.requests.cpu, " +
				"spec.template.spec.containers[0].resources.requests.memory: the target refuses the repair, " +
				"and the object stays as it is: no"},
			[]string{get, get, get, dry},
		},
		// A write would leave another container where it is.
		"another container": {
			patch(deployments, "b", `{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"image:1",
				"resources":{"requests":{"cpu":"1","memory":"1Gi"}}},{"name":"sidecar","image":"theirs"}]}}}}`),
			nil, []string{get, get, dry},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			all := []fields{w.ConfigMap("a", fields{"key": "value"}), w.Deployment("b", 1)}
			w.write(configMaps, all[0])
			w.write(deployments, all[1])
			w.mustObserve(nil, all...) // nobody has seen them before
			if c.before != nil {
				c.before(w)
			}
			for range 2 { // drift is there until it is repaired
				w.Requests.Verbs()
				w.mustObserve(c.want, all...)
				w.mustRequest(c.requests...)
				if c.want == nil {
					c.requests = []string{get, get} // its hash is as it is now
				}
			}
		})
	}
}

// TestObserveAnotherManifest: a hash tells nothing about another manifest than that it was made from.
func TestObserveAnotherManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	value, other := w.ConfigMap("a", fields{"key": "value"}), w.ConfigMap("a", fields{"key": "other"})
	w.write(configMaps, value)
	w.mustObserve(nil, value)
	w.mustObserve(nil, other)
	w.mustObserve(nil, value)
	w.Delete(configMaps, "a")
	w.mustObserve(nil, other) // which was never seen so
	w.mustObserve(nil, w.ConfigMap("b", nil))
}

func TestObserveMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all []fields
	for i := range 4 {
		all = append(all, w.ConfigMap(fmt.Sprintf("a-%d", i), fields{"key": "value"}))
		w.write(configMaps, all[i])
	}
	w.observe(all...)
	w.mustRequest("GET")

	w.Patch(configMaps, "a-0", `{"metadata":{"labels":null}}`)
	w.Patch(configMaps, "a-1", `{"data":{"key":"other"}}`)
	w.Delete(configMaps, "a-2")
	w.mustObserve([]string{"ConfigMap a-1: data.key", "ConfigMap a-2 is missing"}, all...)
	if got := w.Requests.Verbs(); len(got) != 4 { // a list, those that are not in it, and a dry run
		t.Errorf("expected 4 requests, but found %v", got)
	}
}

// TestObserveAmongMany: who lists never sends more requests than who reads each.
func TestObserveAmongMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pages := 0
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/configmaps") {
			return nil, nil
		}
		pages++
		return answer(r, http.StatusOK, "application/json",
			`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"more"},"items":[]}`), nil
	})
	var all []fields
	for i := range 5 {
		all = append(all, w.ConfigMap(fmt.Sprintf("a-%d", i), nil))
		w.write(configMaps, all[i])
	}
	w.observe(all...)
	if pages != 5 || len(w.inventory) != 5 {
		t.Errorf("expected 5 pages and 5 objects, but found %d and %d", pages, len(w.inventory))
	}
}

// TestObserveFailure: an object that cannot be read does not keep the others from being read, and that the target does
// not answer a dry run is no drift.
func TestObserveFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	all := []fields{w.ConfigMap("a", nil), w.ConfigMap("b", nil), w.ConfigMap("c", fields{"key": "value"})}
	for _, o := range all {
		w.write(configMaps, o)
	}
	w.observe(all...)
	w.Patch(configMaps, "c", `{"data":{"key":"other"}}`)
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method == http.MethodPatch:
			return nil, errors.New("lost")
		case strings.HasSuffix(r.URL.Path, "/a"):
			return plugintest.Forbidden(r, ""), nil
		default:
			return nil, nil
		}
	})
	result, err := w.run(w.planOfOthers(all...))
	for _, part := range []string{"/a: ", "/c: cannot reach target cluster"} {
		if part = "read ConfigMap " + w.Namespace + part; err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("expected an error with %q, but found %v", part, err)
		}
	}
	if len(result.Applied) != 1 || result.Applied[0].Key.Name != "b" || len(result.Missing)+len(result.Drift) > 0 {
		t.Errorf("expected the other object alone, but found %+v", result)
	}
}

// TestObserveCustomResource: the API server knows nothing of the lists in it, and the kind may go with its definition.
func TestObserveCustomResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, resource := w.CRD("Gadget")
	gadget := fields{
		"apiVersion": resource.GroupVersion().String(), "kind": "Gadget",
		"metadata": fields{"name": "g"}, "spec": fields{"size": int64(3)},
	}
	w.Create(plugintest.CRDs, definition)
	w.Eventually("the kind to be served", func() bool {
		_, err := w.Objects(resource).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	w.Eventually("the resource to be created", func() bool { // the API server needs another moment
		o := &unstructured.Unstructured{Object: copyOf(gadget)}
		_, err := w.Objects(resource).Create(t.Context(), o, metav1.CreateOptions{})
		return err == nil
	})
	w.Eventually("the kind to be discovered", func() bool {
		w.client.Forget()
		result, err := w.run(w.planOfOthers(gadget))
		if err != nil || len(result.Applied)+len(result.Missing) != 1 {
			t.Fatalf("expected one object, but found %+v, %v", result, err)
		}
		w.note(result.Applied)
		return len(result.Applied) == 1 && result.Applied[0].Key.Namespace == w.Namespace
	})

	w.Patch(resource, "g", `{"spec":{"size":7}}`)
	w.mustObserve([]string{"Gadget g: spec.size"}, gadget)

	name := definition["metadata"].(fields)["name"].(string)
	w.Delete(plugintest.CRDs, name)
	missing := []string{"Gadget g is missing"}
	// At first the client still believes that there is the kind.
	w.Eventually("the resource to go", func() bool { return cmp.Equal(missing, w.observe(gadget)) })
	w.Eventually("the kind to go", func() bool {
		w.client.Forget()
		return len(w.planOfOthers(gadget).Items()) == 0
	})
	w.mustObserve(missing, gadget)
	clear(w.inventory)
	w.mustObserve(nil, gadget)
}

// TestObserveForgetsKinds: a kind that is not served any more is looked up again by the next call.
func TestObserveForgetsKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.ConfigMap("a", nil)
	plan := w.planOfOthers(o)
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		return answer(r, http.StatusNotFound, "text/plain", "404 page not found\n"), nil
	})
	if _, err := w.run(plan); err != nil {
		t.Fatal(err)
	}
	w.Requests.Undisturbed()
	before := w.Requests.AskedOnce()
	w.planOfOthers(o)
	if w.Requests.AskedOnce() == before {
		t.Error("the client still believes what it knew of kinds")
	}
}
