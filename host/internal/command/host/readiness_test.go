package host

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// Rule (troubleshooting.md#a-host-that-is-not-ready): An event of the Pod says why a host is not ready, again after a
// minute for another reason, and after 15 minutes for the same.
func TestUnreadiness(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	u := unreadiness{}
	for _, tc := range []struct {
		after  time.Duration
		reason string
		due    bool
	}{
		{0, "a", false}, {unreadyGrace - 1, "a", false}, {unreadyGrace, "a", true}, {unreadyGrace + 1, "b", false},
		{unreadyGrace + unreadyPause, "b", true}, {unreadyGrace + 2*unreadyPause, "b", false},
		{unreadyGrace + unreadyPause + unreadyRepeat, "b", true},
		{time.Hour, "", false}, {time.Hour + 1, "a", false}, {time.Hour + 1 + unreadyGrace, "a", true},
	} {
		if got := u.due(tc.reason, begin.Add(tc.after)); got != tc.due {
			t.Errorf("%q after %s: expected %t, but found %t", tc.reason, tc.after, tc.due, got)
		}
	}
}

// Rule (troubleshooting.md#a-host-that-is-not-ready): A host that may not list what it watches names the missing right,
// and what grants it.
func TestWatchesHaveTheirProblems(t *testing.T) {
	t.Parallel()
	const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":` +
		`"secrets is forbidden: User \"system:serviceaccount:a:b\" cannot list resource \"secrets\" in API group \"\" ` +
		`at the cluster scope"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/secrets") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(refusal))
			return
		}
		if query := r.URL.Query(); query.Has("watch") && !query.Has("sendInitialEvents") {
			<-r.Context().Done()
		}
		_, _ = w.Write([]byte(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
	}))
	t.Cleanup(server.Close)
	api, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	w := newWatches()
	ctx, end := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	t.Cleanup(func() {
		end()
		ended.Wait()
	})
	start := func(resource string, example runtime.Object) toolscache.SharedIndexInformer {
		lists := toolscache.NewListWatchFromClient(api.CoreV1().RESTClient(), resource, "", fields.Everything())
		informer := w.following(toolscache.NewSharedIndexInformer)(lists, example, 0, nil)
		ended.Go(func() { informer.RunWithContext(ctx) })
		return informer
	}
	synced := start("configmaps", &corev1.ConfigMap{})
	start("secrets", &corev1.Secret{})
	if !toolscache.WaitForCacheSync(ctx.Done(), synced.HasSynced) {
		t.Fatal("the ConfigMaps are not listed")
	}
	for w.problems() == "" && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	const want = `: secrets is forbidden: User "system:serviceaccount:a:b" cannot list resource "secrets" ` +
		`in API group "" at the cluster scope; grant a ClusterRole with the verb "list" for secrets, ` +
		`and a ClusterRoleBinding of it to ` +
		`the ServiceAccount "a/b", and what else host-rights.yaml has`
	if got := w.problems(); got != want {
		t.Errorf("expected %s\nbut found %s", want, got)
	}
}

// TestPodEvents: the Event is about the Pod as kubectl asks for it, and no longer than the API server takes.
func TestPodEvents(t *testing.T) {
	t.Parallel()
	self := pod{name: "pergola-0", namespace: "pergola-system"}
	api, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	ownPod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: self.name, Namespace: self.namespace}}
	if err := api.Create(t.Context(), ownPod); err != nil {
		t.Fatal(err)
	}
	note, list := strings.Repeat("x", 2*maxNote), &eventsv1.EventList{}
	err = podEvents{client: api, self: self}.warn(t.Context(), reasonNotReady, note, time.Now())
	if err = errors.Join(err, api.List(t.Context(), list)); err != nil || len(list.Items) != 1 {
		t.Fatalf("expected one Event, but found %v, %v", list.Items, err)
	}
	if e := list.Items[0]; e.Regarding.UID != ownPod.UID || e.Reason != reasonNotReady || len(e.Note) > maxNote {
		t.Errorf("found the Event %+v", e)
	}
}
