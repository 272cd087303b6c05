package settings_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/settings"
)

var schema = schematest.New(settings.Schema)

func TestLoad(t *testing.T) {
	const head = "apiVersion: manifest.pergola.dev/v1alpha1\nkind: ManifestConfiguration\n"
	tests := map[string]struct {
		reason, document string
		want             settings.Settings
	}{
		"Nothing": {
			reason: "an operator who says nothing gets the defaults",
			want:   settings.Settings{Strict: true},
		},
		"Head": {
			reason:   "a document may leave everything out",
			document: head,
			want:     settings.Settings{Strict: true},
		},
		"Everything": {
			reason:   "what is said counts",
			document: head + "strict: false\n",
			want:     settings.Settings{},
		},
		"JSON": {
			reason:   "the host hands JSON over",
			document: `{"apiVersion":"manifest.pergola.dev/v1alpha1","kind":"ManifestConfiguration","strict":false}`,
			want:     settings.Settings{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, problems := settings.Load([]byte(tc.document))
			if tc.document != "" {
				if err := schema.Validate(t, []byte(tc.document)); err != nil {
					t.Errorf("%s: the schema refuses it: %v", tc.reason, err)
				}
			}
			if len(problems) > 0 {
				t.Errorf("%s: %v", tc.reason, problems)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLoadReportsEverything(t *testing.T) {
	tests := map[string]struct {
		reason, document string
		want             []string
	}{
		"AllAtOnce": {
			reason:   "nobody wants to find one mistake after the other",
			document: "kind: Configuration\nidentity: x\ntargets: {burst: 0}\n",
			want: []string{
				`: unknown field "identity"`, `: unknown field "targets"`, `apiVersion: expected manifest.pergola.dev/v1alpha1, but found ""`,
				`kind: expected ManifestConfiguration, but found "Configuration"`,
			},
		},
		"WrongType": {reason: "the field is named", document: "strict: maybe\n", want: []string{"strict: expected bool, but found string"}},
		"Twice":     {reason: "one of the two would be lost", document: "strict: true\nstrict: false\n", want: []string{": expected YAML or JSON"}},
		"NoYAML":    {reason: "garbage is no document", document: "{", want: []string{": expected YAML or JSON"}},
		"List":      {reason: "a list is no document", document: "[]", want: []string{": expected an object, but found array"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, problems := settings.Load([]byte(tc.document))
			if schema.Validate(t, []byte(tc.document)) == nil {
				t.Errorf("%s: the schema accepts it", tc.reason)
			}
			var found []string
			for _, p := range problems {
				found = append(found, p.Field+": "+p.Message)
			}
			if len(found) != len(tc.want) {
				t.Fatalf("%s: expected %d problems, but found %q", tc.reason, len(tc.want), found)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(found[i], want) {
					t.Errorf("%s: expected %q, but found %q", tc.reason, want, found[i])
				}
			}
		})
	}
}
