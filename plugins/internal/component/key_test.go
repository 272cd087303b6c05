package component_test

import (
	"cmp"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/test/cases"
)

func TestParseKey(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/key.yaml", func(t *testing.T, c struct {
		// Key is an encoded Document.
		Key, Document string
		Want          component.Key
		Says          string
	},
	) {
		found, err := component.ParseKey(cmp.Or(c.Key, base64.StdEncoding.EncodeToString([]byte(c.Document))))
		check(t, c.Want, found, err, c.Says)
	}, "$LONG", strings.Repeat("x", 255))
}

// TestIdentityText: a message has room for some attributes.
func TestIdentityText(t *testing.T) {
	t.Parallel()
	identity := component.Identity{"name": "chart"}
	for _, name := range numbered(1000, "a%d") {
		identity[name] = "b"
	}
	if text := identity.String(); len(text) > 1000 || !strings.HasSuffix(text, "…") {
		t.Errorf("found %s", text)
	}
}
