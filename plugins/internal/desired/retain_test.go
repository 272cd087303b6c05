package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestRetain(t *testing.T) {
	t.Parallel()
	live := plugintest.Object(`{apiVersion: v1, kind: A, metadata: {labels: {a: b}},
		spec: {class: x, size: "1", inner: {set: once, both: "1"}}}`)
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: owner.FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:class":{}}}`),
	}})
	const update, apply = managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyApply
	const none, class = `{size: "2", inner: {both: "2"}}`, `{class: x, size: "2", inner: {both: "2"}}`
	for name, c := range map[string]struct {
		reason   string
		strategy managedresource.UpdateStrategy
		deep     bool
		field    string
		want     string
	}{
		"named":           {"it keeps its value", update, false, "spec.class", class},
		"changed":         {"the manifest counts", update, false, "spec.size", none},
		"unknown":         {"it has no value", update, false, "metadata.other", none},
		"within":          {"what is right in there is enough at first", update, false, "spec", class},
		"deep":            {"then anything", update, true, "spec", `{class: x, size: "2", inner: {set: once, both: "2"}}`},
		"part of nothing": {"the name stands for a part of the spec", update, false, "spec.source", class},
		"apply":           {"fields of others stay without being sent", apply, true, "spec", class},
	} {
		i := itemOf(plugintest.Object(`{apiVersion: v1, kind: A, metadata: {name: a}, spec: ` + none + `}`))
		i.Strategy = c.strategy
		out := i.Desired.DeepCopy()
		Retention{Deep: c.deep}.Retain(i, out, live, []metav1.StatusCause{{Field: c.field}})
		if diff := cmp.Diff(any(plugintest.Fields(c.want)), out.Object["spec"]); diff != "" {
			t.Errorf("%s: %s: -want +got:\n%s", name, c.reason, diff)
		}
	}
}
