package desired

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// Rule (manifest.md#immutable-fields): An object is recreated only for an immutable field, not for a refusal because of
// its state.
func TestMayBeImmutable(t *testing.T) {
	t.Parallel()
	i := itemOf(thing(plugintest.Fields(`{size: 1Gi, same: x, list: [a], strategy: {type: New}}`)))
	live := thing(plugintest.Fields(`{size: 2Gi, same: x, list: [b], others: "y", strategy: {type: Old, rolling: {}}}`))
	const invalid, forbidden = metav1.CauseTypeFieldValueInvalid, metav1.CauseTypeForbidden
	changed := metav1.StatusCause{Type: invalid, Field: "spec.size", Message: "field is immutable"}
	about := func(kind metav1.CauseType, field, message string, more ...metav1.StatusCause) []metav1.StatusCause {
		return append(more, metav1.StatusCause{Type: kind, Field: field, Message: message})
	}
	for name, c := range map[string]struct {
		reason string
		causes []metav1.StatusCause
		want   bool
	}{
		"changed":         {"the manifest changes it", []metav1.StatusCause{changed}, true},
		"whole spec":      {"so it changes a part of it", about(forbidden, "spec", "updates are forbidden"), true},
		"whole object":    {"as a rule of a definition names it", about(invalid, "<nil>", "is immutable"), true},
		"part of a list":  {"lists are compared as a whole", about(invalid, "spec.list[0]", "immutable"), true},
		"no field":        {"it names a part of the spec", about(forbidden, "spec.source", "immutable"), true},
		"no causes":       {"nothing is known", nil, false},
		"duplicate":       {"it is wrong by itself", about(metav1.CauseTypeFieldValueDuplicate, "spec.list[0]", ""), false},
		"missing":         {"it is wrong by itself", about(metav1.CauseTypeFieldValueRequired, "spec.size", ""), false},
		"field of status": {"the state forbids it", about(invalid, "status.storedVersions[0]", ""), false},
		"about status":    {"the state forbids it", about(forbidden, "spec.size", "less than status.capacity"), false},
		"left by merging": {"it is another's", about(forbidden, "spec.strategy.rolling", "may not be set"), false},
		"not changed":     {"it is as it was", about(invalid, "spec.same", "field is immutable"), false},
		"one of both":     {"recreating would get around the other", about(invalid, "status.x", "", changed), false},
	} {
		if got := MayBeImmutable(i, live, c.causes); got != c.want {
			t.Errorf("%s: %s: expected %t, but found %t", name, c.reason, c.want, got)
		}
	}
}

func TestIsFreedQuota(t *testing.T) {
	t.Parallel()
	claim := plugintest.Object(`{kind: PersistentVolumeClaim, spec: {resources: {requests: {storage: 2Gi}}}}`)
	for requested, want := range map[string]bool{
		"configmaps=1":                                  true,
		"count/deployments.apps=1":                      true,
		"persistentvolumeclaims=1,requests.storage=2Gi": true,
		"requests.storage=3Gi":                          false,
		"limits.cpu=1":                                  false,
	} {
		text := "exceeded quota: q, requested: " + requested + ", used: x=5, limited: x=5"
		if got := IsFreedQuota(errors.New(text), claim); got != want {
			t.Errorf("%s: expected %t, but found %t", text, want, got)
		}
	}
	if IsFreedQuota(errors.New("admission webhook denied the request: no"), claim) {
		t.Error("another denial is taken for a quota")
	}
}

func TestMergedByNames(t *testing.T) {
	t.Parallel()
	live := plugintest.Fields(`{env: [{name: a, value: "1"}, {name: b}], args: [x], kept: true}`)
	wanted := plugintest.Fields(`{env: [{name: c}, {name: a, valueFrom: "2"}], args: ["y"]}`)
	want := plugintest.Fields(`{kept: true, args: ["y"],
		env: [{name: a, value: "1", valueFrom: "2"}, {name: b}, {name: c}]}`)
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
	const headless = `{apiVersion: v1, kind: Service, spec: {clusterIP: None}}`
	const other = `{apiVersion: v1, kind: A, spec: {clusterIP: x}}`
	for o, want := range map[string]string{
		`{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], healthCheckNodePort: 30001,
			ports: [{nodePort: 30000}]}}`: `{apiVersion: v1, kind: Service, spec: {ports: [{}]}}`,
		headless: headless, other: other,
	} {
		if diff := cmp.Diff(plugintest.Object(want), WithoutAllocations(plugintest.Object(o))); diff != "" {
			t.Errorf("%s: -want +got:\n%s", o, diff)
		}
	}
}

func TestLosses(t *testing.T) {
	t.Parallel()
	const volume, stateful = `apiVersion: v1, kind: PersistentVolume`, `apiVersion: apps/v1, kind: StatefulSet`
	for o, want := range map[string]bool{
		`apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition`: true,
		`apiVersion: v1, kind: Namespace`:                                     true,
		`apiVersion: v1, kind: PersistentVolumeClaim`:                         true,
		volume + `, spec: {persistentVolumeReclaimPolicy: Delete}`:            true,
		volume + `, spec: {persistentVolumeReclaimPolicy: Retain}`:            false,
		stateful: false,
		stateful + `, spec: {persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}}`: true,
		`apiVersion: batch/v1, kind: Job`:                                                  false,
	} {
		if got := Losses(plugintest.Object("{" + o + "}")); (got != "") != want {
			t.Errorf("%s: expected a loss: %t, but found %q", o, want, got)
		}
	}
}
