package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newConfigMap(resourceVersion string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: meta("places", resourceVersion), Data: data}
}

// contextWith returns the Context foo/default with this ocmConfig; nil for none.
func contextWith(ref *v1alpha1.LocalObjectReference) *v1alpha1.Context {
	lsContext := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "foo", Name: "default"}}
	lsContext.OCMConfig = ref
	return lsContext
}

func TestOCMConfig(t *testing.T) {
	t.Parallel()
	const (
		where = `Context "foo/default": ocmConfig`
		found = where + `: ConfigMap "foo/places": `
	)
	named := func(name string) *v1alpha1.LocalObjectReference { return &v1alpha1.LocalObjectReference{Name: name} }
	holds := func(data map[string]string) []client.Object { return []client.Object{newConfigMap("1", data)} }
	for name, tc := range map[string]struct {
		ref      *v1alpha1.LocalObjectReference
		live     []client.Object
		want     *sdk.OCMConfig
		requests int64
	}{
		"NoneNamed": {},
		"There": {
			named("places"), holds(map[string]string{".ocmconfig": "a: b", "other": "c"}),
			&sdk.OCMConfig{ConfigMap: "places", Content: []byte("a: b")}, 1,
		},
		"Empty": {
			named("places"), holds(map[string]string{".ocmconfig": ""}),
			&sdk.OCMConfig{ConfigMap: "places", Content: []byte{}}, 1,
		},
		"AsLargeAsAllowed": {
			named("places"), holds(map[string]string{".ocmconfig": strings.Repeat("a", maxOCMConfig)}),
			&sdk.OCMConfig{ConfigMap: "places", Content: []byte(strings.Repeat("a", maxOCMConfig))}, 1,
		},
		"TooLarge": {
			named("places"), holds(map[string]string{".ocmconfig": strings.Repeat("a", maxOCMConfig+1)}),
			&sdk.OCMConfig{ConfigMap: "places", Problem: found +
				".ocmconfig has 262145 bytes, of which at most 256 KiB are handed over; remove some of it"}, 2,
		},
		"Missing": {
			named("places"), nil, &sdk.OCMConfig{ConfigMap: "places", Problem: where + `.name: there is no ConfigMap ` +
				`"foo/places"; create it with the key ".ocmconfig", or remove ocmConfig`}, 1,
		},
		"NoData": {
			named("places"), holds(nil), &sdk.OCMConfig{ConfigMap: "places", Problem: found +
				`data is empty; put the configuration into the key ".ocmconfig"`}, 2,
		},
		"OtherKeys": {
			named("places"), holds(map[string]string{"ocmconfig": "a", "b": "c"}),
			&sdk.OCMConfig{ConfigMap: "places", Problem: found +
				`data has no key ".ocmconfig", but ["b" "ocmconfig"]; put the configuration into that key`}, 2,
		},
		"ImpossibleName": {
			named("../Places"), nil, &sdk.OCMConfig{ConfigMap: "../Places", Problem: where +
				`.name: no ConfigMap can have the name "../Places"; correct it`}, 0,
		},
		"NoName": {
			named(""), nil, &sdk.OCMConfig{Problem: where + `.name: no ConfigMap can have the name ""; correct it`}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := newStore(t, tc.live...)
			got, err := OCMConfig(t.Context(), NewResolver(newCache(t), live, Options{}), contextWith(tc.ref))
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if requests := live.requests.Load(); requests != tc.requests {
				t.Errorf("expected %d requests, but found %d", tc.requests, requests)
			}
		})
	}
}

// A ConfigMap costs a request for each of its versions, and what seems wrong with it one more.
func TestRequestsForConfigMap(t *testing.T) {
	t.Parallel()
	sound := newConfigMap("1", map[string]string{".ocmconfig": "a"})
	cached, live := newCache(t), newStore(t, sound)
	// The Secret has the version of the ConfigMap.
	live.put(t, &corev1.Secret{ObjectMeta: sound.ObjectMeta, Data: map[string][]byte{"k": nil}})
	resolver := NewResolver(cached, live, Options{})
	resolve := func(reason, want string, wantRequests int64) {
		t.Helper()
		before := live.requests.Load()
		got, err := OCMConfig(t.Context(), resolver, contextWith(&v1alpha1.LocalObjectReference{Name: "places"}))
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

// What the API server cannot answer now is an error; what it says of the ConfigMap is not.
func TestOCMConfigErrorsOfTheReader(t *testing.T) {
	t.Parallel()
	ref := &v1alpha1.LocalObjectReference{Name: "places"}
	failing := func(err error) *Resolver {
		live := newStore(t)
		live.err = err
		return NewResolver(newCache(t), live, Options{})
	}
	down := errors.New("connection refused")
	got, err := OCMConfig(t.Context(), failing(down), contextWith(ref))
	if got != nil || !errors.Is(err, down) || !strings.HasPrefix(err.Error(),
		`resolve ocmConfig of Context "foo/default": get ConfigMap "foo/places": `) {
		t.Errorf("expected an error that is worth another try, but found %v, %v", got, err)
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "places", errors.New("RBAC"))
	got, err = OCMConfig(t.Context(), failing(forbidden), contextWith(ref))
	const want = `Context "foo/default": ocmConfig.name: the ConfigMap "foo/places" may not be read; ` +
		`allow "get" for configmaps in the namespace "foo"`
	if err != nil || got.Problem != want {
		t.Errorf("expected %s, but found %v, %v", want, got, err)
	}
}
