package target

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newConfigMap(resourceVersion string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta("places", resourceVersion), Data: data}
}

// A ConfigMap costs a request for each of its versions, and what seems wrong with it one more.
// Rule (host-configuration.md#the-configmap-of-a-context): The ConfigMap in `ocmConfig` costs one request per version,
// and none where a Context names none.
func TestRequestsForConfigMap(t *testing.T) {
	t.Parallel()
	sound := newConfigMap("1", map[string]string{".ocmconfig": "a"})
	cached, live := newCache(t), newStore(t, sound)
	// The Secret has the version of the ConfigMap.
	live.put(t, &corev1.Secret{ObjectMeta: sound.ObjectMeta, Data: map[string][]byte{"k": nil}})
	resolver := NewResolver(cached, live, Options{})
	lsContext := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "foo", Name: "default"}}
	lsContext.OCMConfig = &v1alpha1.LocalObjectReference{Name: "places"}
	resolve := func(reason, want string, wantRequests int64) {
		t.Helper()
		before := live.requests.Load()
		got, err := lscontext.OCMConfig(t.Context(), resolver, lsContext)
		if err != nil || string(got.Content) != want || (want == "") != (got.Problem != "") {
			t.Errorf("%s: expected %q, but found %v, %v", reason, want, got, err)
		}
		if requests := live.requests.Load() - before; requests != wantRequests {
			t.Errorf("%s: expected %d requests, but found %d", reason, wantRequests, requests)
		}
	}
	if _, err := resolver.Secret(t.Context(), client.ObjectKeyFromObject(sound), false); err != nil {
		t.Fatal(err)
	}
	resolve("the cache does not know of it yet", "a", 1)
	cached.put(t, newConfigMap("1", nil))
	resolve("remembered since the first read", "a", 0)
	wrong := newConfigMap("2", map[string]string{"typo": "a"})
	mended := newConfigMap("3", map[string]string{".ocmconfig": "b"})
	cached.put(t, wrong)
	live.put(t, wrong)
	resolve("what is wrong is confirmed", "", 2)
	live.put(t, mended)
	resolve("the cache does not know yet that it was mended", "b", 1)
	cached.put(t, mended)
	resolve("and remembered", "b", 0)
}
