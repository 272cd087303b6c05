package schematest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
)

// Accepted is a configuration of a plugin, empty for none, with its settings.
type Accepted[Settings any] struct {
	Reason, Document string
	Want             Settings
}

// MustAccept fails unless each document is read without problems as its settings, and the schema accepts it.
func MustAccept[Settings any](
	t *testing.T, s *Schema, cases map[string]Accepted[Settings],
	load func(document []byte) (Settings, []sdk.Problem), opts ...cmp.Option,
) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := load([]byte(c.Document))
			if c.Document != "" {
				if err := s.Validate(t, []byte(c.Document)); err != nil {
					t.Errorf("%s: the schema refuses it: %v", c.Reason, err)
				}
			}
			if len(problems) > 0 {
				t.Errorf("%s: %v", c.Reason, problems)
			}
			if diff := cmp.Diff(c.Want, got, opts...); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.Reason, diff)
			}
		})
	}
}

// Refused is a configuration of a plugin with mistakes.
type Refused struct {
	Reason, Document string
	// Want are the beginnings of its problems, each as "field: message".
	Want []string
	// Beyond: the mistakes are beyond a JSON schema.
	Beyond bool
}

// MustRefuse fails unless each document has the wanted problems, in their order, and the schema refuses it if a
// schema can.
func MustRefuse[Settings any](
	t *testing.T, s *Schema, cases map[string]Refused, load func(document []byte) (Settings, []sdk.Problem),
) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := load([]byte(c.Document))
			if !c.Beyond && s.Validate(t, []byte(c.Document)) == nil {
				t.Errorf("%s: the schema accepts it", c.Reason)
			}
			var found []string
			for _, p := range problems {
				found = append(found, p.Field+": "+p.Message)
			}
			if len(found) != len(c.Want) {
				t.Fatalf("%s: expected %d problems, but found:\n%s", c.Reason, len(c.Want), strings.Join(found, "\n"))
			}
			for i, want := range c.Want {
				if !strings.HasPrefix(found[i], want) {
					t.Errorf("%s: expected %q, but found %q", c.Reason, want, found[i])
				}
			}
		})
	}
}
