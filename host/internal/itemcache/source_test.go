package itemcache

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
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
		first      bool // the request of an informer that begins
	}{
		"items, one of which cannot be decoded": {
			answer: listed, seen: []string{"one", "one"}, list: []string{"one", "strange", "one"},
		},
		"an item that is nested deeply": {
			answer: strings.Replace(listed, strange, deep, 1),
			seen:   []string{"one", "deep", "one"}, list: []string{"one", "deep", "one"},
		},
		"no item": {answer: `{"items":[],"metadata":{"resourceVersion":"7","continue":"next"}}`},
		"the first list": {
			answer: `{"items":[],"metadata":{"resourceVersion":"7","continue":"next"}}`, first: true,
		},
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
		source.OnArrival(func(item *v1alpha1.DeployItem) { seen = append(seen, item.Name) })
		options, want := metav1.ListOptions{ResourceVersion: "5", Limit: 500}, url.Values{
			"resourceVersion": {"5"}, "limit": {"20000"},
		}
		if tc.first { // no item is taken for its state before the last stop of the host
			options, want = metav1.ListOptions{ResourceVersion: "0"}, url.Values{}
		}
		list, err := source.List(options)
		if !reflect.DeepEqual(asked, want) {
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
			item, _ := item.Object.(*v1alpha1.DeployItem)
			if (item.Status.JobID != item.Status.JobIDFinished) != (item.Name == "strange") {
				t.Errorf("%s: expected only the item that cannot be decoded to be read, but found %+v", name, item)
			}
			listed = append(listed, item.GetName())
		}
		if !slices.Equal(listed, tc.list) {
			t.Errorf("%s: listed %v", name, listed)
		}
	}
}

// TestHas: the types of the items in the cache are known, and none before there is a cache.
func TestHas(t *testing.T) {
	source := sourceOf(t, http.StatusOK, "", &url.Values{})
	before := source.Has([]v1alpha1.DeployItemType{"a"})
	item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Type: "a"}}
	if err := source.NewInformer(nil, item, 0, nil).GetIndexer().Add(item); err != nil {
		t.Fatal(err)
	}
	if before || !source.Has([]v1alpha1.DeployItemType{"b", "a"}) || source.Has([]v1alpha1.DeployItemType{"b"}) {
		t.Error("expected the type a and no other")
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
		source.OnArrival(func(*v1alpha1.DeployItem) { seen = true })
		events, err := source.Watch(metav1.ListOptions{ResourceVersion: "7", AllowWatchBookmarks: true})
		want := url.Values{"watch": {"true"}, "resourceVersion": {"7"}, "allowWatchBookmarks": {"true"}}
		if err != nil || !reflect.DeepEqual(asked, want) {
			t.Fatalf("%s: asked for %v: %v", name, asked, err)
		}
		e := <-events.ResultChan() // without a type after its end
		if item, ok := e.Object.(*v1alpha1.DeployItem); ok && item.ResourceVersion != "8" {
			t.Errorf("%s: found %+v", name, item)
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

// TestArrival: an item that arrives is the one that a client reads, without the note of who has set which field.
func TestArrival(t *testing.T) {
	plane, admin := controlPlane.ForTest(t)
	source, err := NewSource(plane.Config, admin.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	namespace := "items-" + uuid.NewString()[:8]
	var arrived []*v1alpha1.DeployItem
	source.OnArrival(func(item *v1alpha1.DeployItem) {
		if item.Namespace == namespace {
			arrived = append(arrived, item)
		}
	})
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
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "item"}, Spec: v1alpha1.DeployItemSpec{Type: "test"},
	}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, item} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	for e := range events.ResultChan() {
		item, ok := e.Object.(*v1alpha1.DeployItem)
		if !ok {
			t.Fatalf("expected an item, but found %+v", e.Object)
		}
		if e.Type == watch.Deleted && item.Namespace == namespace {
			break
		}
	}
	if len(item.ManagedFields) == 0 {
		t.Fatal("the API server has not noted who has created the item")
	}
	item.ManagedFields = nil
	if diff := gocmp.Diff([]*v1alpha1.DeployItem{item}, arrived); diff != "" {
		t.Errorf("what arrives (-want +got):\n%s", diff)
	}
}
