package continuousreconcile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

func TestFromSpec(t *testing.T) {
	t.Parallel()
	hourLater := began.Add(time.Hour)
	cases := map[string]struct {
		config   string
		want     *time.Time
		mentions string // by an error
	}{
		"every":     {`{"kind": "Any", "continuousReconcile": {"every": "1h"}}`, &hourLater, ""},
		"cron":      {`{"continuousReconcile": {"cron": "0 9 * * *"}}`, &hourLater, ""},
		"no config": {``, nil, ""},
		"no field":  {`{"kind": "Any"}`, nil, ""},
		"null":      {`{"continuousReconcile": null}`, nil, ""},
		"empty":     {`{"continuousReconcile": {}}`, nil, ""},
		// The job reports these.
		"unreadable":    {`{"continuousReconcile": {"every": 1}}`, nil, ""},
		"no object":     {`[]`, nil, ""},
		"other letters": {`{"continuousreconcile": {"every": "1h"}}`, nil, ""},
		// Rule (hooks.md#continuous-reconcile): `every` together with `cron` is refused.
		"both": {
			`{"continuousReconcile": {"every": "1h", "cron": "@daily"}}`, nil, "spec.config.continuousReconcile: expected one",
		},
		"bad every": {
			`{"continuousReconcile": {"every": "soon"}}`, nil, `spec.config.continuousReconcile.every: found "soon"`,
		},
		"bad cron": {`{"continuousReconcile": {"cron": "TZ="}}`, nil, `spec.config.continuousReconcile.cron: found "TZ="`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := finished()
			if tc.config != "" {
				item.Spec.Config = &runtime.RawExtension{Raw: []byte(tc.config)}
			}
			next := continuousreconcile.FromSpec(continuousreconcile.ReadSpec)
			got, err := next(t.Context(), began, item)
			var wrong *continuousreconcile.FieldError
			isUsers := errors.As(err, &wrong) && strings.HasPrefix(err.Error(), tc.mentions) &&
				slices.Equal(sdk.Codes(err), []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem})
			if (err != nil) != (tc.mentions != "") || err != nil && !isUsers {
				t.Errorf("expected a user's mistake that begins with %q, but found %v", tc.mentions, err)
			}
			if (got == nil) != (tc.want == nil) || (got != nil && !got.Equal(*tc.want)) {
				t.Errorf("expected %v, but found %v", tc.want, got)
			}
		})
	}
}
