package sdk

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	types := Types("example.org/hello")
	tests := map[string]struct {
		reason string
		opts   []Option
		// want are the beginnings of the errors.
		want []string
	}{
		"Complete":      {reason: "name and types are enough", opts: []Option{Name("hello"), types}},
		"LongestName":   {reason: "a DNS label has at most 63 characters", opts: []Option{Name(strings.Repeat("a", 63)), types}},
		"TooLong":       {reason: "a DNS label has at most 63 characters", opts: []Option{Name(strings.Repeat("a", 64)), types}, want: []string{"sdk.Name"}},
		"Nothing":       {reason: "everything that is missing is said at once", want: []string{"sdk.Name", "sdk.Types"}},
		"Capitals":      {reason: "a DNS label has none", opts: []Option{Name("Hello"), types}, want: []string{"sdk.Name"}},
		"Dots":          {reason: "a label is no domain", opts: []Option{Name("a.b"), types}, want: []string{"sdk.Name"}},
		"Newline":       {reason: "the whole name counts", opts: []Option{Name("a\n"), types}, want: []string{"sdk.Name"}},
		"HyphenAtStart": {reason: "a label begins with a letter or digit", opts: []Option{Name("-a"), types}, want: []string{"sdk.Name"}},
		"EmptyTypes":    {reason: "each is said", opts: []Option{Name("-"), Types("", "a", "")}, want: []string{"sdk.Name", "sdk.Types", "sdk.Types"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newOptions(tc.opts)
			var got []string
			if err != nil {
				for line := range strings.Lines(err.Error()) {
					option, _, _ := strings.Cut(line, ":")
					got = append(got, option)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	o, err := newOptions([]Option{Name("hello"), Types("a"), Types("b", "c")})
	if err != nil {
		t.Fatal(err)
	}
	if o.version != "unknown" || len(o.types) != 3 {
		t.Errorf("expected version unknown and 3 types, but found %q, %v", o.version, o.types)
	}
}
