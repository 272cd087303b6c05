package desired

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestLosses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live *unstructured.Unstructured
		want bool
	}{
		"definition":    {of("apiextensions.k8s.io/v1", "CustomResourceDefinition", nil), true},
		"namespace":     {of("v1", "Namespace", nil), true},
		"claim":         {of("v1", "PersistentVolumeClaim", nil), true},
		"volume":        {of("v1", "PersistentVolume", fields{"spec": fields{"persistentVolumeReclaimPolicy": "Delete"}}), true},
		"kept volume":   {of("v1", "PersistentVolume", fields{"spec": fields{"persistentVolumeReclaimPolicy": "Retain"}}), false},
		"stateful":      {of("apps/v1", "StatefulSet", nil), false},
		"with claims":   {of("apps/v1", "StatefulSet", fields{"spec": fields{"persistentVolumeClaimRetentionPolicy": fields{"whenDeleted": "Delete"}}}), true},
		"anything else": {of("batch/v1", "Job", nil), false},
	} {
		if got := Losses(c.live); (got != "") != c.want {
			t.Errorf("%s: expected a loss: %t, but found %q", name, c.want, got)
		}
	}
}
