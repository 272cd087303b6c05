package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	finished = `{"jobID":"1","jobIDFinished":"1","phase":"Succeeded"}`
	newJob   = `{"jobID":"2","jobIDFinished":"1","phase":"Succeeded"}`
)

// sourceOf returns a source whose API server has this answer to each request; asked gets its query.
func sourceOf(t *testing.T, code int, answer string, asked *url.Values) *Source {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = r.URL.Query()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer)) // if that fails, so does the test
	}))
	t.Cleanup(server.Close)
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	source, err := NewSource(&rest.Config{Host: server.URL}, scheme)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func annotated(key, value string) func(*v1alpha1.DeployItem) {
	return func(item *v1alpha1.DeployItem) { item.Annotations = map[string]string{key: value} }
}

// heard is a Listener.
type heard map[string]int

func (h heard) Listed(item *v1alpha1.DeployItem) { h[item.Name]++ }
func (h heard) AllListed()                       { h["end"]++ }

// TestSeen: an item that was listed or watched is not read when it is reconciled.
func TestSeen(t *testing.T) {
	silent := func(item *v1alpha1.DeployItem) { item.Annotations = nil }
	asks := func(operation string) func(*v1alpha1.DeployItem) {
		return func(item *v1alpha1.DeployItem) { item.Annotations[v1alpha1.OperationAnnotation] = operation }
	}
	cases := map[string]struct {
		reason      string
		status      string
		modify      func(*v1alpha1.DeployItem)
		idle, typed bool // what is remembered of a list
	}{
		"finished":  {reason: "there is nothing to do", status: finished, idle: true},
		"never-set": {reason: "nobody has set a job so far", idle: true},
		"new-job":   {reason: "there is a job", status: newJob},
		"asks":      {reason: "an operation is to begin", status: finished, modify: asks(v1alpha1.OperationReconcile)},
		"asks-for-something-unknown": {
			reason: "somebody is to learn that there is no such operation", status: finished, modify: asks("dance"),
		},
		"silent": {
			reason: "its metadata does not tell its type", status: finished, modify: silent, idle: true, typed: true,
		},
		"silent-with-a-job": {
			reason: "its type is known, its job is to be carried out", status: newJob, modify: silent, typed: true,
		},
		"lying": {
			reason: "its metadata tells another type", status: finished,
			modify: annotated(v1alpha1.DeployerTypeAnnotation, "test.pergola.dev/another"), idle: true, typed: true,
		},
	}
	for _, listed := range []bool{true, false} {
		b := newBench(t, succeeds)
		c := &Controller{router: b.router, memory: b.memory, plugins: b.plugins, clock: b.clock}
		hearer := heard{}
		c.options.Listed = hearer
		for name, tc := range cases {
			b.newItemAs(b.item.Namespace, name, tc.status, func(item *v1alpha1.DeployItem) {
				if tc.modify != nil {
					tc.modify(item)
				}
			})
		}
		if listed {
			list := &v1alpha1.DeployItemList{}
			if err := b.admin.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			list.ResourceVersion = "1"
			encoded, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			source := sourceOf(t, http.StatusOK, string(encoded), &url.Values{})
			source.seen = c.seen
			if _, err := source.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		reads := 0
		b.readFrom(interceptor.NewClient(b.admin, interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
			) error {
				reads++
				return c.Get(ctx, key, obj, opts...)
			},
		}))
		for name, tc := range cases {
			key := client.ObjectKey{Namespace: b.item.Namespace, Name: name}
			if !listed {
				item := &v1alpha1.DeployItem{}
				if err := b.admin.Get(t.Context(), key, item); err != nil {
					t.Fatal(err)
				}
				c.seen(item, false)
			}
			e := b.memory.entries[key]
			if _, typed := b.router.types[key]; e == nil || e.arrived == (tc.idle && listed) || typed != tc.typed {
				t.Errorf("%s: %s: found %+v, typed: %t", name, tc.reason, e, typed)
			}
			if hearer[name] > 0 != listed {
				t.Errorf("%s: heard of %d times", name, hearer[name])
			}
			if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
				t.Errorf("%s: %s", name, err)
			}
		}
		if reads != 0 {
			t.Errorf("listed: %t: %d items were read", listed, reads)
		}
	}
}

// TestNothingIsKeptOfOthers: the content of an item that no plugin here serves is of no use.
func TestNothingIsKeptOfOthers(t *testing.T) {
	b := newBench(t, succeeds)
	c := &Controller{router: b.router, memory: b.memory, plugins: b.plugins, clock: b.clock}
	c.seen(newDeployItem("ns", "foreign", func(item *v1alpha1.DeployItem) {
		item.Spec.Type = "test.pergola.dev/foreign"
		item.Status.JobID = "1"
	}), false)
	if len(b.memory.entries) != 0 {
		t.Errorf("remembered: %v", b.memory.entries)
	}
}

// TestSourceLists: all items are listed, and those seen that can be decoded. A list that is broken is an error of the
// informer, which tries again.
func TestSourceLists(t *testing.T) {
	const (
		one     = `{"metadata":{"name":"one","resourceVersion":"1"},"status":{"observedGeneration":1}}`
		strange = `{"metadata":{"name":"strange","resourceVersion":"2"},"status":{"observedGeneration":"first"}}`
		listed  = `{"kind":"DeployItemList","items":[` + one + `,` + strange + `,` + one + `],` +
			`"metadata":{"resourceVersion":"7","continue":"next"}}`
	)
	// As deep as the API server takes it: who may create items must not keep the host from listing those of others.
	deep := `{"metadata":{"name":"deep","resourceVersion":"3"},"spec":{"config":{"a":` +
		strings.Repeat("[", 9997) + strings.Repeat("]", 9997) + `}}}`
	cases := map[string]struct {
		answer     string
		code       int
		seen, list []string
		err        string
	}{
		"items, one of which cannot be decoded": {
			answer: listed, seen: []string{"one", "one"}, list: []string{"one", "strange", "one"},
		},
		"an item that is nested deeply": {
			answer: strings.Replace(listed, strange, deep, 1),
			seen:   []string{"one", "deep", "one"}, list: []string{"one", "deep", "one"},
		},
		"no item":          {answer: `{"items":[],"metadata":{"resourceVersion":"7","continue":"next"}}`},
		"cut off":          {answer: listed[:len(one)+50], seen: []string{"one"}, err: "EOF"},
		"cut off at once":  {err: "EOF"},
		"null":             {answer: `{"items":null,"metadata":{"resourceVersion":"7","continue":"next"}}`},
		"another object":   {answer: `{"kind":"Status","metadata":{}}`, err: "is no list"},
		"without metadata": {answer: `{"items":[{"metadata":7}]}`, err: "cannot unmarshal"},
		"no list":          {answer: `{"items":7}`, err: "expected an array, but found 7"},
		"refused": {
			answer: `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too soon","code":429}`,
			code:   http.StatusTooManyRequests, err: "too soon",
		},
	}
	for name, tc := range cases {
		var asked url.Values
		source := sourceOf(t, cmp.Or(tc.code, http.StatusOK), tc.answer, &asked)
		var seen, listed []string
		source.seen = func(item *v1alpha1.DeployItem, _ bool) { seen = append(seen, item.Name) }
		list, err := source.List(metav1.ListOptions{ResourceVersion: "5", Limit: 500})
		if want := (url.Values{"resourceVersion": {"5"}, "limit": {"20000"}}); !reflect.DeepEqual(asked, want) {
			t.Errorf("%s: asked for %v", name, asked)
		}
		if !slices.Equal(seen, tc.seen) {
			t.Errorf("%s: seen %v", name, seen)
		}
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: expected an error with %q, but found %v", name, tc.err, err)
			}
			continue
		}
		items, ok := list.(*metav1.List)
		if err != nil || !ok || items.ResourceVersion != "7" || items.Continue != "next" {
			t.Fatalf("%s: found %+v, %v", name, list, err)
		}
		for _, item := range items.Items {
			meta, _ := item.Object.(*metav1.PartialObjectMetadata)
			listed = append(listed, meta.GetName())
		}
		if !slices.Equal(listed, tc.list) {
			t.Errorf("%s: listed %v", name, listed)
		}
	}
}

// TestFirstListIsTheNewest: no item is taken for what it was before the host stopped.
func TestFirstListIsTheNewest(t *testing.T) {
	var asked url.Values
	source := sourceOf(t, http.StatusOK, `{"items":[],"metadata":{"resourceVersion":"7"}}`, &asked)
	_, err := source.List(metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(asked) > 0 {
		t.Errorf("asked for %v: %v", asked, err)
	}
}

// TestEventsAreDecoded: each event is passed on, and those of items that can be decoded are seen.
func TestEventsAreDecoded(t *testing.T) {
	const item = `{"metadata":{"name":"item","resourceVersion":"8"},"status":{"observedGeneration":1}}`
	strange := strings.Replace(item, ":1}", `:"first"}`, 1)
	for name, tc := range map[string]struct {
		answer string
		seen   bool
		want   watch.EventType
	}{
		"added":             {`{"type":"ADDED","object":` + item + `}`, true, watch.Added},
		"modified":          {`{"type":"MODIFIED","object":` + item + `}`, true, watch.Modified},
		"deleted":           {`{"type":"DELETED","object":` + item + `}`, false, watch.Deleted},
		"bookmark":          {`{"type":"BOOKMARK","object":` + item + `}`, false, watch.Bookmark},
		"cannot be decoded": {`{"type":"MODIFIED","object":` + strange + `}`, false, watch.Modified},
		"too old":           {`{"type":"ERROR","object":{"code":410,"reason":"Expired"}}`, false, watch.Error},
		"no event":          {`[]`, false, watch.Error},
		"cut off":           {`{"type":"MODIFIED","object":{"meta`, false, ""},
		"the end":           {``, false, ""},
	} {
		seen, asked := false, url.Values{}
		source := sourceOf(t, http.StatusOK, tc.answer, &asked)
		source.seen = func(*v1alpha1.DeployItem, bool) { seen = true }
		events, err := source.Watch(metav1.ListOptions{ResourceVersion: "7", AllowWatchBookmarks: true})
		want := url.Values{"watch": {"true"}, "resourceVersion": {"7"}, "allowWatchBookmarks": {"true"}}
		if err != nil || !reflect.DeepEqual(asked, want) {
			t.Fatalf("%s: asked for %v: %v", name, asked, err)
		}
		e := <-events.ResultChan() // without a type after its end
		if meta, ok := e.Object.(*metav1.PartialObjectMetadata); ok && meta.ResourceVersion != "8" {
			t.Errorf("%s: found %+v", name, meta)
		}
		if err := apierrors.FromObject(e.Object); name == "too old" && !apierrors.IsResourceExpired(err) {
			t.Errorf("%s: found %v", name, err)
		}
		if e.Type != tc.want || seen != tc.seen {
			t.Errorf("%s: found %q, seen: %t", name, e.Type, seen)
		}
		events.Stop()
	}
}

// TestSourceWatches: an item that is seen is the one that a client reads, without the note of who has set which field.
func TestSourceWatches(t *testing.T) {
	a := newServerAPI(t)
	source, err := NewSource(a.config, a.admin.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	namespace := a.newNamespace()
	var seen []*v1alpha1.DeployItem
	source.seen = func(item *v1alpha1.DeployItem, listed bool) {
		if item.Namespace == namespace && !listed {
			seen = append(seen, item)
		}
	}
	list, err := source.List(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	version, _ := list.(*metav1.List)
	events, err := source.Watch(metav1.ListOptions{ResourceVersion: version.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	item := newDeployItem(namespace, "item")
	a.create(item)
	if err := a.admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	for e := range events.ResultChan() {
		meta, ok := e.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			t.Fatalf("expected metadata, but found %+v", e.Object)
		}
		if e.Type == watch.Deleted && meta.Namespace == namespace {
			break
		}
	}
	if len(item.ManagedFields) == 0 {
		t.Fatal("the API server has not noted who has created the item")
	}
	item.ManagedFields = nil
	if diff := gocmp.Diff([]*v1alpha1.DeployItem{item}, seen); diff != "" {
		t.Errorf("what is seen (-want +got):\n%s", diff)
	}
}

// TestArrivesWhileItIsRead: the job of an item of which another version arrives during the read goes on with its lock,
// and what arrives later is looked at although the job is not due.
func TestArrivesWhileItIsRead(t *testing.T) {
	b := newBench(t, always(waits("a Pod")))
	b.setJob()
	b.readFrom(interceptor.NewClient(b.admin, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
		) error {
			err := c.Get(ctx, key, obj, opts...)
			if item, ok := obj.(*v1alpha1.DeployItem); ok && err == nil {
				b.memory.arrived(item.DeepCopy())
			}
			return err
		},
	}))
	b.reconcile(t.Context())
	if _, _, goesOn := b.memory.lockState(client.ObjectKeyFromObject(b.item)); !goesOn {
		t.Error("the lock of the job is released")
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	b.memory.arrived(b.read())
	if b.reconcile(t.Context()); b.read().Annotations[v1alpha1.OperationAnnotation] != "" {
		t.Error("the abort is left for later")
	}
}
