package desired

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestRetain(t *testing.T) {
	t.Parallel()
	live := of("v1", "A", fields{
		"metadata": fields{"labels": fields{"a": "b"}},
		"spec":     fields{"class": "x", "size": "1", "inner": fields{"set": "once", "both": "1"}},
	})
	live.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: owner.FieldManager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:class":{}}}`),
	}})
	for name, c := range map[string]struct {
		reason   string
		strategy managedresource.UpdateStrategy
		step     Retention
		field    string
		want     fields
	}{
		"named":   {reason: "it keeps its value", field: "spec.class", want: fields{"class": "x", "size": "2", "inner": fields{"both": "2"}}},
		"changed": {reason: "the manifest counts", field: "spec.size", want: fields{"size": "2", "inner": fields{"both": "2"}}},
		"unknown": {reason: "it has no value", field: "metadata.other", want: fields{"size": "2", "inner": fields{"both": "2"}}},
		"within":  {reason: "what is right in there is enough at first", field: "spec", want: fields{"class": "x", "size": "2", "inner": fields{"both": "2"}}},
		"deep": {
			reason: "then anything", step: Retention{Deep: true}, field: "spec",
			want: fields{"class": "x", "size": "2", "inner": fields{"set": "once", "both": "2"}},
		},
		"part of nothing": {
			reason: "the name stands for a part of the spec", field: "spec.source",
			want: fields{"class": "x", "size": "2", "inner": fields{"both": "2"}},
		},
		"apply": {
			reason: "fields of others stay without being sent", strategy: managedresource.UpdateStrategyApply,
			step: Retention{Deep: true}, field: "spec", want: fields{"class": "x", "size": "2", "inner": fields{"both": "2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := planned(of("v1", "A", fields{"spec": fields{"size": "2", "inner": fields{"both": "2"}}}), "ns", "a")
			i.Strategy = c.strategy
			out := i.Desired.DeepCopy()
			c.step.Retain(i, out, live, []metav1.StatusCause{{Field: c.field}})
			if diff := cmp.Diff(any(c.want), out.Object["spec"]); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}
