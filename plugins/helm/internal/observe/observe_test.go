package observe_test

import (
	"errors"
	"fmt"
	"io"
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
	for name, c := range map[string]struct {
		reason   string
		before   func(*world)
		want     []string
		requests []string
	}{
		"unchanged": {reason: "there is nothing to say", requests: []string{"GET", "GET"}},
		"changed": {
			reason: "a field of the manifest has another value", want: []string{"ConfigMap a: data.key"}, requests: []string{"GET", "GET", "dry PATCH"},
			before: func(w *world) { w.Patch(configMaps, "a", `{"data":{"key":"other","theirs":"x"}}`) },
		},
		"removed": {
			reason: "a field of the manifest is gone, and the map with it", want: []string{"ConfigMap a: data"}, requests: []string{"GET", "GET", "dry PATCH"},
			before: func(w *world) { w.Patch(configMaps, "a", `{"data":{"key":null}}`) },
		},
		"more": {
			reason: "what the manifest does not name belongs to others", requests: []string{"GET", "GET"},
			before: func(w *world) { w.Patch(configMaps, "a", `{"data":{"theirs":"x"},"metadata":{"labels":{"a":"b"}}}`) },
		},
		"deleted": {
			reason: "it has to be created again", want: []string{"ConfigMap a is missing"}, requests: []string{"GET", "GET"},
			before: func(w *world) { w.Delete(configMaps, "a") },
		},
		"created anew": {
			reason: "it is as it was, whoever has made it", requests: []string{"GET", "GET"},
			before: func(w *world) {
				w.Delete(configMaps, "a")
				w.write(configMaps, w.ConfigMap("a", fields{"key": "value"}))
			},
		},
		"replicas": {
			reason:   "the spelling of other fields does not count; an autoscaler might have set them",
			want:     []string{"Deployment b: spec.replicas"},
			requests: []string{"GET", "GET", "GET", "dry PATCH"},
			before:   func(w *world) { w.Patch(deployments, "b", `{"spec":{"replicas":7}}`) },
		},
		"read only": {
			reason:   "the target refuses the repair: what is spelt differently is named as well",
			requests: []string{"GET", "GET", "GET", "dry PATCH"},
			want: []string{"Deployment b: spec.replicas, spec.template.spec.containers[0].resources.requests.cpu, " +
				"spec.template.spec.containers[0].resources.requests.memory: the target refuses the repair, and the object stays as it is: no"},
			before: func(w *world) {
				w.Patch(deployments, "b", `{"spec":{"replicas":7}}`)
				w.refuse(http.MethodPatch)
			},
		},
		"another container": {
			reason: "a write would leave it where it is", requests: []string{"GET", "GET", "dry PATCH"},
			before: func(w *world) {
				w.Patch(deployments, "b", `{"spec":{"template":{"spec":{"containers":[
					{"name":"main","image":"image:1","resources":{"requests":{"cpu":"1","memory":"1Gi"}}},{"name":"sidecar","image":"theirs"}]}}}}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			all := []fields{w.ConfigMap("a", fields{"key": "value"}), w.Deployment("b", 1)}
			w.write(configMaps, all[0])
			w.write(deployments, all[1])
			if found := w.observe(all...); found != nil {
				t.Fatalf("expected no drift in what nobody has seen before, but found %v", found)
			}
			if c.before != nil {
				c.before(w)
			}
			for range 2 { // drift is there until it is repaired
				w.Requests.Verbs()
				if diff := cmp.Diff(c.want, w.observe(all...)); diff != "" {
					t.Errorf("%s: -want +got:\n%s", c.reason, diff)
				}
				w.mustRequest(c.requests...)
				if c.want == nil {
					c.requests = []string{"GET", "GET"} // its hash is as it is now
				}
			}
		})
	}
}

// TestObserveAnotherManifest: a hash tells nothing about another manifest than that it was made from.
func TestObserveAnotherManifest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(configMaps, w.ConfigMap("a", fields{"key": "value"}))
	w.observe(w.ConfigMap("a", fields{"key": "value"}))
	if found := w.observe(w.ConfigMap("a", fields{"key": "other"})); found != nil {
		t.Errorf("expected no drift, but found %v", found)
	}
	if found := w.observe(w.ConfigMap("a", fields{"key": "value"})); found != nil {
		t.Errorf("expected no drift, but found %v", found)
	}
	w.Delete(configMaps, "a")
	if found := w.observe(w.ConfigMap("a", fields{"key": "other"})); found != nil {
		t.Errorf("expected no drift of what was never seen so, but found %v", found)
	}
	if found := w.observe(w.ConfigMap("b", nil)); found != nil {
		t.Errorf("expected no drift of what was never seen, but found %v", found)
	}
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
	want := []string{"ConfigMap a-1: data.key", "ConfigMap a-2 is missing"}
	if diff := cmp.Diff(want, w.observe(all...)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
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
		return &http.Response{
			StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
			Body: io.NopCloser(strings.NewReader(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"continue":"more"},"items":[]}`)),
		}, nil
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
	if diff := cmp.Diff([]string{"Gadget g: spec.size"}, w.observe(gadget)); diff != "" {
		t.Errorf("after a change: -want +got:\n%s", diff)
	}

	name := definition["metadata"].(fields)["name"].(string)
	w.Delete(plugintest.CRDs, name)
	missing := []string{"Gadget g is missing"}
	// At first the client still believes that there is the kind.
	w.Eventually("the resource to go", func() bool { return cmp.Equal(missing, w.observe(gadget)) })
	w.Eventually("the kind to go", func() bool {
		w.client.Forget()
		return len(w.planOfOthers(gadget).Items()) == 0
	})
	if diff := cmp.Diff(missing, w.observe(gadget)); diff != "" {
		t.Errorf("after its kind was removed: -want +got:\n%s", diff)
	}
	clear(w.inventory)
	if found := w.observe(gadget); found != nil {
		t.Errorf("expected no drift of what was never seen, but found %v", found)
	}
}

// TestObserveForgetsKinds: a kind that is not served any more is looked up again by the next call.
func TestObserveForgetsKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.ConfigMap("a", nil)
	plan := w.planOfOthers(o)
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}}, Request: r,
			Body: io.NopCloser(strings.NewReader("404 page not found\n")),
		}, nil
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
