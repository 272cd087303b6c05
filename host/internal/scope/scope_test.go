package scope

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Resource: "any"}
	missing, forbidden := apierrors.NewNotFound(resource, "a"), apierrors.NewForbidden(resource, "a", errors.New("no"))
	away := errors.New("connection refused")
	for name, test := range map[string]struct {
		before      state
		terminating bool
		read, list  error
		want        state
	}{
		"there":                           {stateUnknown, false, nil, nil, stateServed},
		"not there":                       {stateUnknown, false, missing, nil, stateMissing},
		"not there, and no Role either":   {stateUnknown, false, missing, forbidden, stateMissing},
		"there without the Role":          {stateUnknown, false, nil, forbidden, stateForbidden},
		"in deletion, with the Role":      {stateServed, true, nil, nil, stateServed},
		"in deletion, without it":         {stateServed, true, nil, forbidden, stateTerminating},
		"no right to tell":                {stateUnknown, false, forbidden, forbidden, stateForbidden},
		"the right to list is enough":     {stateForbidden, false, forbidden, nil, stateServed},
		"the API server is away":          {stateServed, false, away, away, stateServed},
		"the API server was away so far":  {stateUnknown, false, away, away, stateUnknown},
		"the API server answers one only": {stateMissing, false, nil, away, stateMissing},
	} {
		if got := judge(test.before, test.terminating, test.read, test.list); got != test.want {
			t.Errorf("%s: expected %q, but found %q", name, test.want, got)
		}
	}
}

// Rule (host-configuration.md#namespaces): A missing namespace is an event and no reason not to be ready; a missing
// right to an existing one is both. In a namespace in deletion it is an event alone.
func TestWatcher(t *testing.T) {
	t.Parallel()
	api, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	allowed := false
	rights := interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if !allowed {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "deployitems"}, "", errors.New("no"))
		}
		return c.List(ctx, list, options...)
	}}
	var reasons []string
	w := New(Options{
		Namespaces: []string{"shop"}, Live: interceptor.NewClient(api, rights),
		Warn: func(_ context.Context, reason, message string) {
			if reasons = append(reasons, reason); !strings.Contains(message, `namespace "shop"`) {
				t.Errorf("%s names no namespace: %s", reason, message)
			}
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if w.Ready() == nil {
		t.Error("the host is ready before its first look")
	}
	for range 2 { // the second look finds nothing new
		w.look(t.Context(), "shop")
	}
	if err := w.Ready(); err != nil {
		t.Errorf("a missing namespace: %v", err)
	}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := api.Create(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	w.look(t.Context(), "shop")
	if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "may not list deployitems") {
		t.Errorf("a missing right: %v", err)
	}
	allowed = true
	w.look(t.Context(), "shop")
	if err := w.Ready(); err != nil {
		t.Errorf("all is there: %v", err)
	}
	allowed, shop.Finalizers = false, []string{"kubernetes"}
	if err := errors.Join(api.Update(t.Context(), shop), api.Delete(t.Context(), shop)); err != nil {
		t.Fatal(err)
	}
	w.look(t.Context(), "shop")
	if err := w.Ready(); err != nil {
		t.Errorf("a namespace in deletion: %v", err)
	}
	if want := []string{reasonMissing, reasonForbidden, reasonTerminating}; !slices.Equal(reasons, want) {
		t.Errorf("expected the events %v, but found %v", want, reasons)
	}
}
