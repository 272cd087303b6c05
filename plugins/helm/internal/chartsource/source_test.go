package chartsource_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

func TestParse(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	raw := func(raw string) helmv1alpha1.Chart {
		return helmv1alpha1.Chart{Archive: &helmv1alpha1.Archive{Raw: raw}}
	}
	tests := map[string]struct {
		reason string
		chart  helmv1alpha1.Chart
		want   string
	}{
		"Tag":         {"the usual reference", ofRef("registry.example.org/charts/shop:1.2.3"), "chart registry.example.org/charts/shop:1.2.3"},
		"UsualPort":   {"the port of https says nothing", ofRef("registry.example.org:443/shop:1"), "chart registry.example.org/shop:1"},
		"Digest":      {"by digest", ofRef("oci://registry.example.org/shop@" + digest), "chart registry.example.org/shop@" + digest},
		"Build":       {"tags have no plus", ofRef("registry.example.org/shop:1.2.3+b1"), "chart registry.example.org/shop:1.2.3_b1"},
		"DockerHub":   {"its names are one", ofRef("oci://registry-1.docker.io/bitnamicharts/nginx:1.0.0"), "chart docker.io/bitnamicharts/nginx:1.0.0"},
		"Remote":      {"an address", ofURL("https://example.org/shop.tgz?token=x#f"), "archive https://example.org/shop.tgz?…"},
		"Raw":         {"an archive", raw(base64.StdEncoding.EncodeToString(plain)), "the archive in the provider configuration"},
		"ResourceRef": {"for a resolver", helmv1alpha1.Chart{ResourceRef: "eA=="}, "the chart of chart.resourceRef"},
		"FromResource": {
			"for a resolver", helmv1alpha1.Chart{FromResource: json.RawMessage(`{"ref": {}}`)}, "the chart of chart.fromResource",
		},
		"NullFromResource": {"null is nothing", helmv1alpha1.Chart{Ref: "r.example.org/shop:1", FromResource: json.RawMessage(" null ")}, "chart r.example.org/shop:1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, errs := chartsource.Parse(test.chart, field.NewPath("chart"))
			if len(errs) > 0 || source.String() != test.want {
				t.Errorf("%s: expected %q, but found %q and %v", test.reason, test.want, source, errs)
			}
			wantResolver := map[string]chart.Field{"ResourceRef": chart.ResourceRef, "FromResource": chart.FromResource}[name]
			if got := source.NeedsResolver(); got != wantResolver {
				t.Errorf("expected a resolver for %q, but found %q", wantResolver, got)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	archive := func(a helmv1alpha1.Archive) helmv1alpha1.Chart { return helmv1alpha1.Chart{Archive: &a} }
	long := strings.Repeat("a", 3000)
	tests := map[string]struct {
		reason string
		chart  helmv1alpha1.Chart
		want   []string
	}{
		"Nothing":       {"one is needed", helmv1alpha1.Chart{}, []string{"chart: Required", "archive.remote"}},
		"Several":       {"one is enough", helmv1alpha1.Chart{Ref: "r.example.org/a:1", ResourceRef: "x"}, []string{"chart.ref and chart.resourceRef are set"}},
		"NoArchive":     {"one is needed", archive(helmv1alpha1.Archive{}), []string{"chart.archive: Required"}},
		"Archives":      {"one is enough", archive(helmv1alpha1.Archive{Raw: "x", Remote: &helmv1alpha1.RemoteArchive{}}), []string{"raw and remote are both set"}},
		"NoTag":         {"nobody knows the newest", ofRef("registry.example.org/shop"), []string{"chart.ref", "neither a tag nor a digest"}},
		"NoRegistry":    {"Docker's shorthand is not for charts", ofRef("shop:1"), []string{"chart.ref", "registry.example.org/charts/shop"}},
		"Dots":          {"no path leads out", ofRef("registry.example.org/../shop:1"), []string{"chart.ref"}},
		"BadDigest":     {"too short", ofRef("registry.example.org/shop@sha256:abc"), []string{"chart.ref"}},
		"HTTPSRef":      {"that is an address", ofRef("https://registry.example.org/shop:1"), []string{"chart.archive.remote.url"}},
		"UserRef":       {"the registry's credentials are in the Context", ofRef("me:" + password + "@registry.example.org/shop:1"), []string{"chart.ref"}},
		"LongRef":       {"there is a limit", ofRef("registry.example.org/" + long + ":1"), []string{"chart.ref", "Too long"}},
		"FileURL":       {"no files of the plugin", ofURL("file:///etc/passwd"), []string{"chart.archive.remote.url", "http://"}},
		"Opaque":        {"one is needed", ofURL("https:x"), []string{"chart.archive.remote.url", "a host"}},
		"UserURL":       {"the credentials are in the Context", ofURL("https://me:" + password + "@example.org/x"), []string{"without a user", "helmChartRepoCredentials"}},
		"BadURL":        {"it is none", ofURL("https://me:" + password + "@example.org:x/"), []string{"chart.archive.remote.url"}},
		"LongURL":       {"there is a limit", ofURL("https://example.org/" + long), []string{"Too long"}},
		"OCIRepository": {"that is another source", ofRepository("oci://r.example.org/charts", "shop", ""), []string{"helmChartRepoUrl", "chart.ref"}},
		"Repository": {
			"everything at once", ofRepository("", "", "one"),
			[]string{"chart.helmChartRepo.helmChartRepoUrl: Required", "chart.helmChartRepo.helmChartName: Required", "chart.helmChartRepo.helmChartVersion: Invalid"},
		},
		"Name":    {"no name has a slash", ofRepository("https://example.org", "../shop", ""), []string{"helmChartName"}},
		"Long":    {"there is a limit", ofRepository("https://example.org", long, long), []string{"helmChartName", "helmChartVersion"}},
		"Base64":  {"it is none", archive(helmv1alpha1.Archive{Raw: password}), []string{"chart.archive.raw", "base64"}},
		"NoChart": {"it is no archive", archive(helmv1alpha1.Archive{Raw: base64.StdEncoding.EncodeToString([]byte(password))}), []string{"found text/plain"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, errs := chartsource.Parse(test.chart, field.NewPath("chart"))
			text := errs.ToAggregate()
			if len(errs) == 0 || source != (chartsource.Source{}) {
				t.Fatalf("%s: expected errors, but found %v", test.reason, source)
			}
			for _, want := range test.want {
				if !strings.Contains(text.Error(), want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, text)
				}
			}
			if strings.Contains(text.Error(), password) || len(text.Error()) > 1000 && name != "Long" {
				t.Errorf("an error must not repeat what may be secret or long: %v", text)
			}
		})
	}
}
