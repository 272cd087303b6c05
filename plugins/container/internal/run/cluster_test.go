package run

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// What the API server would find wrong again ends the job, and nothing else does.
func TestRejections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		err    error
		want   bool
	}{
		// Rule (container.md#jobs-and-errors): A Pod rejected as invalid fails the job.
		{"it is not valid", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "shop", nil), true},
		{"it cannot be read", apierrors.NewBadRequest("no Pod"), true},
		{"it is too large", apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		{
			// Rule (container.md#jobs-and-errors): A Pod above a quota is tried again.
			"a quota may have room later",
			apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "shop", errors.New("exceeded quota")), false,
		},
		{"it may be busy", apierrors.NewTooManyRequests("later", 1), false},
		{"it cannot be reached", errors.New("connection refused"), false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			err := (&Job{}).explain(v1alpha1.Place{}, stepStart, fmt.Errorf("create Pod: %w", c.err))
			if known, ok := errors.AsType[*sdk.Error](err); !ok || (len(known.Codes) > 0) != c.want {
				t.Errorf("expected a code: %t, but found %v", c.want, err)
			}
		})
	}
}
