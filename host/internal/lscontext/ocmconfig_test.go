package lscontext

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// configMap is a ConfigMapReader of one ConfigMap, foo/places; nil if there is none. It counts the reads.
type configMap struct {
	data  map[string]string
	err   error
	reads int
}

func (c *configMap) ConfigMap(_ context.Context, name types.NamespacedName, _ bool) (*corev1.ConfigMap, error) {
	c.reads++
	switch {
	case c.err != nil:
		return nil, fmt.Errorf("get ConfigMap %q: %w", name, c.err)
	case c.data == nil || name != types.NamespacedName{Namespace: "foo", Name: "places"}:
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name.Name)
	}
	return &corev1.ConfigMap{Data: c.data}, nil
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
	for name, tc := range map[string]struct {
		ref   *v1alpha1.LocalObjectReference
		data  map[string]string
		want  *sdk.OCMConfig
		reads int
	}{
		"NoneNamed": {},
		"There": {
			named("places"), map[string]string{".ocmconfig": "a: b", "other": "c"},
			&sdk.OCMConfig{ConfigMap: "places", Content: []byte("a: b")}, 1,
		},
		"Empty": {
			named("places"), map[string]string{".ocmconfig": ""},
			&sdk.OCMConfig{ConfigMap: "places", Content: []byte{}}, 1,
		},
		"AsLargeAsAllowed": {
			named("places"), map[string]string{".ocmconfig": strings.Repeat("a", maxOCMConfig)},
			&sdk.OCMConfig{ConfigMap: "places", Content: []byte(strings.Repeat("a", maxOCMConfig))}, 1,
		},
		"TooLarge": {
			named("places"), map[string]string{".ocmconfig": strings.Repeat("a", maxOCMConfig+1)},
			&sdk.OCMConfig{ConfigMap: "places", Problem: found +
				".ocmconfig has 262145 bytes, but at most 256 KiB are handed over; remove some of it"}, 2,
		},
		"Missing": {
			named("places"), nil, &sdk.OCMConfig{ConfigMap: "places", Problem: where + `.name: there is no ConfigMap ` +
				`"foo/places"; create it with the key ".ocmconfig", or remove ocmConfig`}, 1,
		},
		"NoData": {
			named("places"), map[string]string{}, &sdk.OCMConfig{ConfigMap: "places", Problem: found +
				`data is empty; put the configuration into the key ".ocmconfig"`}, 2,
		},
		"OtherKeys": {
			named("places"), map[string]string{"ocmconfig": "a", "b": "c"},
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
			reader := &configMap{data: tc.data}
			got, err := OCMConfig(t.Context(), reader, contextWith(tc.ref))
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if reader.reads != tc.reads {
				t.Errorf("expected %d reads, but found %d", tc.reads, reader.reads)
			}
		})
	}
}

// What the API server cannot answer now is an error; what it says of the ConfigMap is not.
func TestOCMConfigErrorsOfTheReader(t *testing.T) {
	t.Parallel()
	ref := &v1alpha1.LocalObjectReference{Name: "places"}
	down := errors.New("connection refused")
	got, err := OCMConfig(t.Context(), &configMap{err: down}, contextWith(ref))
	if got != nil || !errors.Is(err, down) || !strings.HasPrefix(err.Error(),
		`resolve ocmConfig of Context "foo/default": get ConfigMap "foo/places": `) {
		t.Errorf("expected an error that is worth another try, but found %v, %v", got, err)
	}
	forbidden := apierrors.NewForbidden(corev1.Resource("configmaps"), "places", errors.New("RBAC"))
	got, err = OCMConfig(t.Context(), &configMap{err: forbidden}, contextWith(ref))
	const want = `Context "foo/default": ocmConfig.name: the ConfigMap "foo/places" may not be read; ` +
		`allow "get" for configmaps in the namespace "foo"`
	if err != nil || got.Problem != want {
		t.Errorf("expected %s, but found %v, %v", want, got, err)
	}
}
