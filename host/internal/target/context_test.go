package target

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestContext(t *testing.T) {
	t.Parallel()
	object := func(name string) *v1alpha1.Context {
		return &v1alpha1.Context{
			ObjectMeta:           meta(name, "1"),
			ContextConfiguration: v1alpha1.ContextConfiguration{OCMConfig: &v1alpha1.LocalObjectReference{Name: "ocm"}},
		}
	}
	cases := map[string]struct {
		reason       string
		name         string
		opts         Options
		cached, live []client.Object
		want         *v1alpha1.Context
		wantErr      string
		wantLive     int64
	}{
		"named": {
			reason: "spec.context is read from the cache.", name: "c", cached: []client.Object{object("c")}, want: object("c"),
		},
		"default": {
			reason: "An empty name is the default.", cached: []client.Object{object("default")}, want: object("default"),
		},
		"only live": {
			reason: "The cache may lag.", name: "c", live: []client.Object{object("c")}, want: object("c"), wantLive: 1,
		},
		"not missing": {
			reason: "A default that exists is used.", opts: Options{DefaultContext: true},
			live: []client.Object{object("default")}, want: object("default"), wantLive: 1,
		},
		"missing": {
			reason: "A missing Context is named.", name: "c", wantLive: 1,
			wantErr: `Context "foo/c": there is no such Context; create it, or correct spec.context of the deploy item`,
		},
		"default missing": {
			reason: "A default is missing like any other.", wantLive: 1,
			wantErr: `Context "foo/default": there is no such Context; create it, or correct spec.context of the deploy item`,
		},
		"default allowed to be missing": {
			reason: "The option stands in for the default.", opts: Options{DefaultContext: true}, wantLive: 1,
			want: &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Namespace: "foo", Name: "default"}},
		},
		"other missing": {
			reason: "The option stands in for no other Context.", name: "c", opts: Options{DefaultContext: true}, wantLive: 1,
			wantErr: `Context "foo/c": there is no such Context; create it, or correct spec.context of the deploy item`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := newItem("")
			item.Spec.Context = tc.name
			live := newStore(tc.live...)
			got, err := NewResolver(newCache(tc.cached...).reader(), live.reader(), tc.opts).Context(t.Context(), item)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nContext() (-want +got):\n%s", tc.reason, diff)
			}
			if live.requests.Load() != tc.wantLive {
				t.Errorf("%s\nContext(): want %d live requests, got %d", tc.reason, tc.wantLive, live.requests.Load())
			}
			if tc.wantErr == "" && err == nil {
				return
			}
			var typed *Error
			if !errors.As(err, &typed) || typed.Error() != tc.wantErr || typed.Reason != ReasonContextNotFound ||
				typed.Code() != "" {
				t.Errorf("%s\nContext(): want %q, got %v", tc.reason, tc.wantErr, err)
			}
		})
	}
}
