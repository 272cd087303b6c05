package chartsource_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/test/cases"
)

func TestParse(t *testing.T) {
	t.Parallel()
	encode := base64.StdEncoding.EncodeToString
	cases.Run(t, "testdata/source.yaml", func(t *testing.T, c struct {
		Chart    helmv1alpha1.Chart
		Want     string
		Resolver chart.Field
		Says     []string
		// Long tells that the error repeats a long text.
		Long bool
	},
	) {
		source, errs := chartsource.Parse(c.Chart, field.NewPath("chart"))
		if len(c.Says) == 0 {
			if len(errs) > 0 || source.String() != c.Want || source.NeedsResolver() != c.Resolver {
				t.Errorf("found %q with a resolver for %q, and %v", source, source.NeedsResolver(), errs)
			}
			return
		}
		if len(errs) == 0 || source != (chartsource.Source{}) {
			t.Fatalf("expected errors, but found %v", source)
		}
		text := errs.ToAggregate().Error()
		for _, says := range c.Says {
			if !strings.Contains(text, says) {
				t.Errorf("expected %q, but found: %s", says, text)
			}
		}
		if strings.Contains(text, password) || len(text) > 1000 && !c.Long {
			t.Errorf("an error must not repeat what may be secret or long: %s", text)
		}
	}, "$DIGEST", "sha256:"+strings.Repeat("a", 64), "$PLAIN", encode(plain), "$PASSWORD", password,
		"$ENCODED", encode([]byte(password)), "$LONG", strings.Repeat("a", 3000))
}
