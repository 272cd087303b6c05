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
		reason   string
		config   string
		want     *time.Time
		mentions string // by an error
	}{
		"every":         {"the item's schedule", `{"kind": "Any", "continuousReconcile": {"every": "1h"}}`, &hourLater, ""},
		"cron":          {"the schedule of the item", `{"continuousReconcile": {"cron": "0 9 * * *"}}`, &hourLater, ""},
		"no config":     {"an item may have no configuration", ``, nil, ""},
		"no field":      {"an item need not have a schedule", `{"kind": "Any"}`, nil, ""},
		"null":          {"null is nothing", `{"continuousReconcile": null}`, nil, ""},
		"empty":         {"an empty object is allowed and no schedule", `{"continuousReconcile": {}}`, nil, ""},
		"unreadable":    {"the job reports it", `{"continuousReconcile": {"every": 1}}`, nil, ""},
		"no object":     {"the job reports it", `[]`, nil, ""},
		"other letters": {"names of fields are exact", `{"continuousreconcile": {"every": "1h"}}`, nil, ""},
		"both": {
			"nobody could tell which counts", `{"continuousReconcile": {"every": "1h", "cron": "@daily"}}`, nil,
			"spec.config.continuousReconcile: expected one",
		},
		"bad every": {
			"the field is named", `{"continuousReconcile": {"every": "soon"}}`, nil,
			`spec.config.continuousReconcile.every: found "soon"`,
		},
		"bad cron": {
			"the field is named", `{"continuousReconcile": {"cron": "TZ="}}`, nil,
			`spec.config.continuousReconcile.cron: found "TZ="`,
		},
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
			if tc.mentions != "" {
				wantRefusal(t, err, tc.mentions)
			} else if err != nil {
				t.Errorf("%s, but: %v", tc.reason, err)
			}
			if (got == nil) != (tc.want == nil) || (got != nil && !got.Equal(*tc.want)) {
				t.Errorf("%s: expected %v, but found %v", tc.reason, tc.want, got)
			}
		})
	}
}

// wantRefusal wants an error that is not worth a retry and leads to the field.
func wantRefusal(t *testing.T, err error, mentions string) {
	t.Helper()
	var configuration *sdk.Error
	var wrong *continuousreconcile.FieldError
	switch {
	case !errors.As(err, &configuration) ||
		!slices.Equal(configuration.Codes, []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}):
		t.Errorf("expected a configuration error, but found %v", err)
	case !errors.As(err, &wrong):
		t.Errorf("expected a FieldError within, but found %v", err)
	case !strings.HasPrefix(err.Error(), mentions):
		t.Errorf("expected an error that begins with %q, but found %v", mentions, err)
	}
}
