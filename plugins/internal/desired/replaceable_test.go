package desired

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Rule (manifest.md#immutable-fields): An object is recreated only for an immutable field, not for a refusal because of
// its state.
func TestMayBeImmutable(t *testing.T) {
	t.Parallel()
	i := planned(of("v1", "A", fields{"spec": fields{
		"size": "1Gi", "same": "x", "list": []any{"a"}, "strategy": fields{"type": "New"},
	}}), "ns", "a")
	live := of("v1", "A", fields{"spec": fields{
		"size": "2Gi", "same": "x", "list": []any{"b"}, "others": "y", "strategy": fields{"type": "Old", "rolling": fields{}},
	}})
	cause := func(kind metav1.CauseType, field, message string) metav1.StatusCause {
		return metav1.StatusCause{Type: kind, Field: field, Message: message}
	}
	const invalid, forbidden = metav1.CauseTypeFieldValueInvalid, metav1.CauseTypeForbidden
	for name, c := range map[string]struct {
		reason string
		causes []metav1.StatusCause
		want   bool
	}{
		"changed":         {"the manifest changes it", []metav1.StatusCause{cause(invalid, "spec.size", "field is immutable")}, true},
		"whole spec":      {"so it changes a part of it", []metav1.StatusCause{cause(forbidden, "spec", "updates are forbidden")}, true},
		"whole object":    {"as a rule of a definition names it", []metav1.StatusCause{cause(invalid, "<nil>", "is immutable")}, true},
		"part of a list":  {"lists are compared as a whole", []metav1.StatusCause{cause(invalid, "spec.list[0]", "immutable")}, true},
		"no field":        {"it names a part of the spec", []metav1.StatusCause{cause(forbidden, "spec.source", "immutable")}, true},
		"no causes":       {"nothing is known", nil, false},
		"duplicate":       {"it is wrong by itself", []metav1.StatusCause{cause(metav1.CauseTypeFieldValueDuplicate, "spec.list[0]", "")}, false},
		"missing":         {"it is wrong by itself", []metav1.StatusCause{cause(metav1.CauseTypeFieldValueRequired, "spec.size", "")}, false},
		"field of status": {"the state forbids it", []metav1.StatusCause{cause(invalid, "status.storedVersions[0]", "")}, false},
		"about status": {
			"the state forbids it",
			[]metav1.StatusCause{cause(forbidden, "spec.size", "field can not be less than status.capacity")}, false,
		},
		"left by merging": {"it is another's", []metav1.StatusCause{cause(forbidden, "spec.strategy.rolling", "may not be set")}, false},
		"not changed":     {"it is as it was", []metav1.StatusCause{cause(invalid, "spec.same", "field is immutable")}, false},
		"one of both": {
			"recreating would get around the other",
			[]metav1.StatusCause{cause(invalid, "spec.size", "immutable"), cause(invalid, "status.x", "")}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := MayBeImmutable(i, live, c.causes); got != c.want {
				t.Errorf("%s: expected %t, but found %t", c.reason, c.want, got)
			}
		})
	}
}

func TestIsFreedQuota(t *testing.T) {
	t.Parallel()
	claim := of("v1", "PersistentVolumeClaim", fields{
		"spec": fields{"resources": fields{"requests": fields{"storage": "2Gi"}}},
	})
	for text, want := range map[string]bool{
		"exceeded quota: q, requested: configmaps=1, used: configmaps=5, limited: configmaps=5":                                 true,
		"exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=5, limited: x=5":                  true,
		"exceeded quota: q, requested: persistentvolumeclaims=1,requests.storage=2Gi, used: requests.storage=2Gi, limited: x=1": true,
		"exceeded quota: q, requested: requests.storage=3Gi, used: requests.storage=2Gi, limited: requests.storage=2Gi":         false,
		"exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=1, limited: limits.cpu=1":                                 false,
		"admission webhook denied the request: no":                                                                              false,
	} {
		if got := IsFreedQuota(errors.New(text), claim); got != want {
			t.Errorf("%s: expected %t, but found %t", text, want, got)
		}
	}
}

func TestMergedByNames(t *testing.T) {
	t.Parallel()
	env := func(name string, more fields) fields {
		out := fields{"name": name}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	live := fields{"env": []any{env("a", fields{"value": "1"}), env("b", nil)}, "args": []any{"x"}, "kept": true}
	wanted := fields{"env": []any{env("c", nil), env("a", fields{"valueFrom": "2"})}, "args": []any{"y"}}
	want := fields{
		"env":  []any{env("a", fields{"value": "1", "valueFrom": "2"}), env("b", nil), env("c", nil)},
		"args": []any{"y"}, "kept": true,
	}
	if diff := cmp.Diff(any(want), mergedByNames(live, wanted)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	odd := []any{fields{"name": fields{}}, "text"}
	if diff := cmp.Diff(any(odd), mergedByNames(odd, odd)); diff != "" {
		t.Errorf("names that are none: -want +got:\n%s", diff)
	}
}

// TestWithoutAllocations: a Service that is to be created anew does not ask for what its old self still has.
func TestWithoutAllocations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ o, want *unstructured.Unstructured }{
		"addresses and ports": {
			of("v1", "Service", fields{"spec": fields{
				"clusterIP": "10.0.0.1", "clusterIPs": []any{"10.0.0.1"}, "healthCheckNodePort": int64(30001), "ports": []any{fields{"nodePort": int64(30000)}},
			}}),
			of("v1", "Service", fields{"spec": fields{"ports": []any{fields{}}}}),
		},
		"headless": {of("v1", "Service", fields{"spec": fields{"clusterIP": "None"}}), of("v1", "Service", fields{"spec": fields{"clusterIP": "None"}})},
		"other":    {of("v1", "A", fields{"spec": fields{"clusterIP": "x"}}), of("v1", "A", fields{"spec": fields{"clusterIP": "x"}})},
	} {
		if diff := cmp.Diff(c.want, WithoutAllocations(c.o)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
