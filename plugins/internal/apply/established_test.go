package apply

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk"
)

// TestEstablished: what is of a kind is applied when its definition is usable, and not at all if its names are taken.
func TestEstablished(t *testing.T) {
	t.Parallel()
	definition := func(conditions ...any) *unstructured.Unstructured {
		return of("apiextensions.k8s.io/v1", "CustomResourceDefinition", fields{"status": fields{"conditions": conditions}})
	}
	accepted, refused := fields{"type": "NamesAccepted", "status": "True"}, fields{"type": "NamesAccepted", "status": "False"}
	for name, c := range map[string]struct {
		o      *unstructured.Unstructured
		usable bool
		reason string // of the error
	}{
		"new":         {o: definition()},
		"accepted":    {o: definition(accepted, fields{"type": "Established", "status": "False"})},
		"established": {o: definition(accepted, fields{"type": "Established", "status": "True"}), usable: true},
		"taken":       {o: definition(refused), reason: ReasonNamesTaken},
		"other":       {o: of("v1", "ConfigMap", nil), usable: true},
	} {
		missing, err := established(c.o)
		var problem *sdk.Error
		if errors.As(err, &problem) != (c.reason != "") || problem != nil && problem.Reason != c.reason {
			t.Errorf("%s: expected the reason %q, but found the error %v", name, c.reason, err)
		}
		if (missing == "" && err == nil) != c.usable {
			t.Errorf("%s: expected it to be usable: %t, but found %q and %v", name, c.usable, missing, err)
		}
	}
}
