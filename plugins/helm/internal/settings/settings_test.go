package settings_test

import (
	"encoding/pem"
	"net/http/httptest"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/test/configtest"
)

const head = "apiVersion: helm.pergola.dev/v1alpha1\nkind: HelmConfiguration\n"

func TestSettings(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/*.yaml", Schema: configtest.NewSchema(settings.Schema),
		Type: reflect.TypeFor[settings.Settings](), Read: configtest.Load(settings.Load),
	}.Run(t)
}

// TestDefaults: a document without fields, and none at all, have the documented defaults.
func TestDefaults(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		"", head, head + "limits:\nchartCache: {size: null, maxAge: null}\nworkers: null\n",
	} {
		s, problems := settings.Load([]byte(document))
		if diff := cmp.Diff(settings.Default(), s); diff != "" || len(problems) > 0 {
			t.Errorf("%q: problems %v, settings: -want +got:\n%s", document, problems, diff)
		}
	}
	s := settings.Default()
	if !s.Strict || s.Workers != 16 || s.MaxHistory != 10 || s.Limits.Files != 10_000 || s.Limits.SubchartDepth != 10 ||
		s.Limits.RenderTime.Duration != 30*time.Second || s.ChartCache.MaxAge.Duration != 24*time.Hour {
		t.Errorf("expected the documented defaults, but found %+v", s)
	}
	amounts := []int64{
		s.ChartCache.Size.Bytes, s.Limits.Archive.Bytes, s.Limits.Unpacked.Bytes, s.Limits.Rendered.Bytes,
		s.Limits.Memory.Bytes,
	}
	if diff := cmp.Diff([]int64{524_288_000, 20_971_520, 104_857_600, 52_428_800, 1_073_741_824}, amounts); diff != "" {
		t.Errorf("amounts: -want +got:\n%s", diff)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s, problems := settings.Load([]byte(head + `
strict: false
workers: 1
maxHistory: 2
chartCache: {size: 1.5Gi, maxAge: 90m}
limits: {archive: 1M, unpacked: 2Mi, files: 3, subchartDepth: 4, rendered: "5000", renderTime: 1.5s, memory: 6Gi}
registries:
- {host: registry.example.org, insecureSkipTLSVerify: true}
- {host: "localhost:5000", plainHTTP: true}
- {host: "[::1]:5000", caData: ` + strconv.Quote(string(authority)) + `}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	found := []int64{
		int64(s.Workers), int64(s.MaxHistory), s.ChartCache.Size.Bytes, int64(s.ChartCache.MaxAge.Duration),
		s.Limits.Archive.Bytes, s.Limits.Unpacked.Bytes, int64(s.Limits.Files), int64(s.Limits.SubchartDepth),
		s.Limits.Rendered.Bytes, int64(s.Limits.RenderTime.Duration), s.Limits.Memory.Bytes,
	}
	want := []int64{
		1, 2, 1_610_612_736, int64(90 * time.Minute),
		1_000_000, 2_097_152, 3, 4, 5000, int64(1500 * time.Millisecond), 6_442_450_944,
	}
	if diff := cmp.Diff(want, found); diff != "" || s.Strict {
		t.Errorf("strict %t, values: -want +got:\n%s", s.Strict, diff)
	}
	registries := []fetch.Registry{
		{Host: "registry.example.org", InsecureSkipTLSVerify: true},
		{Host: "localhost:5000", PlainHTTP: true},
		{Host: "[::1]:5000", CAData: authority},
	}
	if diff := cmp.Diff(registries, s.Registries); diff != "" {
		t.Errorf("registries: -want +got:\n%s", diff)
	}
}
