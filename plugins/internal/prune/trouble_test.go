package prune_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func failing(methods ...string) func(*http.Request) error {
	return func(r *http.Request) error {
		if slices.Contains(methods, r.Method) {
			return errors.New("cut off")
		}
		return nil
	}
}

// TestErrorsOfSingleObjects: an object that cannot be changed or deleted keeps neither its group from being deleted nor
// the user from seeing what is wrong, but it holds up the groups after it.
// Rule (manifest.md#deletion): An object with an error keeps neither its group nor other objects from being deleted.
func TestErrorsOfSingleObjects(t *testing.T) {
	t.Parallel()
	invalid := &runtime.RawExtension{Raw: []byte(`{"data":"not a map, but s3cr3t"}`)}
	for name, c := range map[string]struct {
		reason  string
		prepare func(w *world, bad *entry)
		// held says that another object of the group is on its way.
		held    bool
		codes   int
		err     string
		waiting []string
	}{
		"final, while others are on their way": {
			reason:  "there is nothing to wait for",
			prepare: func(_ *world, bad *entry) { bad.PatchBeforeDelete = invalid },
			held:    true, codes: 1, err: "delete ConfigMap NAMESPACE/bad: ", waiting: []string{"ConfigMap NAMESPACE/good"},
		},
		"refused value": {
			reason: "the API server says what is wrong",
			prepare: func(_ *world, bad *entry) {
				bad.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(`{"data":{"a/b":"s3cr3t"}}`)}
			},
			codes: 1, err: "data[a/b]",
		},
		"unreadable patch": {
			reason: "it is not even tried",
			prepare: func(_ *world, bad *entry) {
				bad.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(`s3cr3t`)}
			},
			codes: 1, err: "patchBeforeDelete is not a JSON object",
		},
		"passing": {
			reason:  "the job is retried",
			prepare: func(w *world, _ *entry) { w.Requests.Fail(failingFor("bad")) },
			err:     "delete ConfigMap NAMESPACE/bad: ",
		},
		"passing, while others are on their way": {
			reason:  "the next look tries again; until then the user sees why",
			prepare: func(w *world, _ *entry) { w.Requests.Fail(failingFor("bad")) },
			held:    true,
			waiting: []string{"ConfigMap NAMESPACE/good", "ConfigMap NAMESPACE/bad (cannot be deleted yet: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			bad, good, role := w.configMap("bad"), w.configMap("good"), w.role("a")
			if c.held {
				w.patch(configMaps, w.Namespace, "good", `{"metadata":{"finalizers":["`+hold+`"]}}`)
			}
			c.prepare(w, &bad)
			result, err := w.run(w.deletion("", bad, good, role))

			if want := strings.ReplaceAll(c.err, "NAMESPACE", w.Namespace); (err == nil) != (want == "") ||
				err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: expected an error with %q, but found %v", c.reason, want, err)
			}
			if codes := sdk.Codes(err); len(codes) != c.codes {
				t.Errorf("%s: expected %d codes, but found %v", c.reason, c.codes, codes)
			}
			if err != nil && strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error quotes the patch: %v", err)
			}
			if len(result.Waiting) != len(c.waiting) {
				t.Fatalf("%s: expected to wait for %q, but found %q", c.reason, c.waiting, result.Waiting)
			}
			for i, part := range c.waiting {
				if want := strings.ReplaceAll(part, "NAMESPACE", w.Namespace); !strings.HasPrefix(result.Waiting[i], want) {
					t.Errorf("%s: expected to wait for %q, but found %q", c.reason, want, result.Waiting[i])
				}
			}
			w.mustBe("there", bad, role)
			if !c.held {
				w.mustBe("gone", good)
			}
		})
	}
}

// failingFor lets the deletion of an object fail on its way.
func failingFor(name string) func(*http.Request) error {
	return func(r *http.Request) error {
		if r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/"+name) {
			return errors.New("cut off")
		}
		return nil
	}
}

// TestNothingIsDeletedThatHasChanged: what happens to an object between the look at it and its deletion.
// Rule (SECURITY.md#owners-of-target-clusters): An object is deleted only in the version seen before.
func TestNothingIsDeletedThatHasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		meet   func(w *world)
		times  int
		state  string
		left   bool
	}{
		"taken over": {
			"it belongs to another deploy item by now",
			func(w *world) {
				w.patch(configMaps, w.Namespace, "a", `{"metadata":{"labels":{"`+owner.Label+`":"other.item"}}}`)
			}, 1, "there", true,
		},
		"exchanged": {
			"it is another object by now",
			func(w *world) {
				w.delete(configMaps, w.Namespace, "a")
				w.configMap("a")
			}, 1, "there", true,
		},
		"deleted": {"somebody was faster", func(w *world) { w.delete(configMaps, w.Namespace, "a") }, 1, "gone", false},
		"busy": {
			"an object that changes all the time is deleted all the same",
			func(w *world) {
				w.patch(configMaps, w.Namespace, "a", `{"data":{"counter":"`+uuid.NewString()+`"}}`)
			}, 100, "gone", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e, times := w.configMap("a"), 0
			w.Requests.Fail(func(r *http.Request) error {
				if r.Method == http.MethodDelete && times < c.times {
					times++
					c.meet(w)
				}
				return nil
			})
			result := w.mustFinish(w.deletion("", e))
			if got := w.state(e); got != c.state || (len(result.Left) > 0) != c.left {
				t.Errorf("%s: expected the object to be %s, but it is %s; left: %q", c.reason, c.state, got, left(result))
			}
		})
	}
}

func TestPreparationIsNotLostWhenTheObjectChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.configMap("a", hold)
	e.AnnotateBeforeDelete = map[string]string{"confirm": "true"}
	withdrawn := false
	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodDelete && !withdrawn {
			withdrawn = true
			w.patch(configMaps, w.Namespace, "a", `{"metadata":{"annotations":null}}`)
		}
		return nil
	})
	w.mustWaitFor(w.mustRun(w.deletion("", e)), hold)
	if got := w.get(e).GetAnnotations()["confirm"]; got != "true" {
		t.Errorf("expected the annotation to be set again before the deletion, but found %q", got)
	}
}

// TestPreparationWithoutEffect: what the API server or a webhook drops from a patch does not hold the deletion up.
func TestPreparationWithoutEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.configMap("a")
	e.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(`{"unknown":"field"}`)}
	w.mustFinish(w.deletion("", e))
	if diff := cmp.Diff([]string{"GET a", "PATCH a", "DELETE a", "GET a"}, w.requested()); diff != "" {
		t.Errorf("requests: -want +got:\n%s", diff)
	}
}

// TestVersionIsNotServedAnyMore: that the API server does not know a path must not be taken for a missing object.
func TestVersionIsNotServedAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, things := w.crd("Thing")
	e := w.create(things, w.Namespace, "a", map[string]any{"kind": "Thing"})
	first := w.mustRun(w.deletion(`[{"predefinedResourceGroup":{"type":"empty"}}]`, e)) // the client gets to know v1
	if len(first.Left) != 1 {
		t.Fatalf("expected the object to be left, but found %+v", first)
	}
	w.patch(crds, "", definition.Resource.Name, `{"spec":{"versions":[`+
		`{"name":"v1","served":false,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}},`+
		`{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	things.Version = "v2"
	w.Eventually("v1 not to be served", func() bool {
		v1 := things
		v1.Version = "v1"
		_, err := w.in(v1, w.Namespace).List(t.Context(), metav1.ListOptions{})
		return apierrors.IsNotFound(err)
	})
	var result prune.Result
	w.Eventually("the deletion to be complete", func() bool {
		result = w.mustRun(w.deletion("", e))
		return len(result.Waiting) == 0
	})
	if len(result.Gone) != 1 || len(w.remaining(things)) > 0 {
		t.Errorf("expected the object to be deleted in v2, but found %+v and %q", result, w.remaining(things))
	}
}

// TestAPIServerThatIsDown: an aggregated API server that does not answer concerns its own objects only. They hold up
// the groups after theirs.
func TestAPIServerThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := w.Namespace + ".down.example.org"
	w.create(apiServices, "", "v1."+group, map[string]any{"spec": map[string]any{
		"group": group, "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
		"service": map[string]any{"namespace": w.Namespace, "name": "nobody"},
	}})
	unreachable := entry{Resource: managedresource.ObjectReference{
		APIVersion: group + "/v1", Kind: "Thing", Namespace: w.Namespace, Name: "t", UID: "7f5c0e5e-0000-0000-0000-000000000000",
	}}
	object, role := w.configMap("a"), w.role("a")
	w.Eventually("the API server to say that it cannot tell", func() bool {
		_, err := w.run(w.deletion("", unreachable))
		return err != nil
	})
	for _, groups := range []string{"", `[{"customResourceGroup":{"resources":[{"apiVersion":"` + group + `/v1","kind":"things"},
		{"apiVersion":"v1","kind":"ConfigMap"}]}},{"predefinedResourceGroup":{"type":"cluster-scoped-resources"}}]`} {
		_, err := w.run(w.deletion(groups, unreachable, object, role))
		if err == nil || !strings.Contains(err.Error(), "delete Thing "+w.Namespace+"/t: ") || len(sdk.Codes(err)) > 0 {
			t.Errorf("expected an error about the object that can be retried, but found %v", err)
		}
		w.mustBe("gone", object)
		w.mustBe("there", role)
	}
}

func TestUnreachableTargetIsOneError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Requests.Fail(func(*http.Request) error { return errors.New("connection refused") })
	_, err := w.run(w.deletion("", w.configMap("a"), w.role("a")))
	if err == nil || strings.Count(err.Error(), "connection refused") != 1 || !strings.Contains(err.Error(), "cannot reach target cluster") {
		t.Errorf("expected one error about the target, but found %v", err)
	}
	var unanswered *url.Error
	if errors.As(err, &unanswered) {
		t.Errorf("the error shows the URL: %v", err)
	}
}

func TestSeenIsWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	held := w.configMap("held", hold)
	result := w.mustRun(w.deletion("", w.configMap("gone"), held))
	if len(result.Seen) != 1 {
		t.Fatalf("expected one object to watch, but found %+v", result.Seen)
	}
	seen := result.Seen[0]
	if seen.Client != w.client || seen.Mapping.Resource != configMaps || seen.Key.Name != "held" ||
		seen.ResourceVersion != w.get(held).GetResourceVersion() {
		t.Errorf("expected the object as it was seen last, but found %+v", seen)
	}
}

// TestAppliedObjectIsNoOrphan: what was applied may be in the inventory by another name, without its uid, as by another
// group that serves it.
func TestAppliedObjectIsNoOrphan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.configMap("a")
	uid := e.Resource.UID
	e.Resource.UID = ""
	d := w.deletion("", e)
	d.Applied = map[types.UID]bool{uid: true}
	w.mustFinish(d)
	w.mustBe("there", e)
}

// TestMadeAnew: an object that the deploy item has created anew is its own although the new uid was not noted.
func TestMadeAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.configMap("a")
	e.Resource.UID = "7f5c0e5e-0000-0000-0000-000000000000"
	if _, err := w.in(configMaps, w.Namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"a":"b"}}`),
		metav1.PatchOptions{FieldManager: "pergola"}); err != nil {
		t.Fatal(err)
	}
	w.mustFinish(w.deletion("", e))
	w.mustBe("gone", e)
}

// Rule (manifest.md#deletion): `deleteAllResources` deletes nothing if the item deployed nothing.
func TestWithoutEntriesNothingIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.configMap("a")
	result := w.mustFinish(w.deletion(`[{"customResourceGroup":{"resources":[{"apiVersion":"v1","kind":"ConfigMap","namespaces":["` +
		w.Namespace + `"]}],"deleteAllResources":true}}]`))
	if len(result.Gone) > 0 || len(w.requested()) > 0 {
		t.Errorf("expected nothing to happen, but found %+v", result)
	}
	w.mustBe("there", other)
}
