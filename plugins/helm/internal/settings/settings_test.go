package settings_test

import (
	"encoding/pem"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
)

const head = "apiVersion: helm.pergola.dev/v1alpha1\nkind: HelmConfiguration\n"

// defaults returns the settings of an operator who says nothing, with changes.
func defaults(changes ...func(*settings.Settings)) settings.Settings {
	s := settings.Settings{
		Strict: true, Workers: 16, MaxHistory: 10,
		ChartCache: settings.ChartCache{Bytes: 524_288_000, MaxAge: 24 * time.Hour},
		Limits: settings.Limits{
			ArchiveBytes: 20_971_520, UnpackedBytes: 104_857_600, Files: 10_000, SubchartDepth: 10, RenderedBytes: 52_428_800,
			RenderTime: 30 * time.Second, MemoryBytes: 1_073_741_824,
		},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// certificate returns one in PEM.
func certificate(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func TestLoad(t *testing.T) {
	t.Parallel()
	authority := certificate(t)
	schematest.MustAccept(t, schema, map[string]schematest.Accepted[settings.Settings]{
		"Nothing": {Reason: "an operator who says nothing gets the defaults", Want: defaults()},
		"Head":    {Reason: "a document may leave everything out", Document: head, Want: defaults()},
		"Everything": {
			Reason: "what is said counts",
			Document: head + `
strict: false
workers: 1
maxHistory: 2
chartCache: {size: 1.5Gi, maxAge: 90m}
limits: {archive: 1M, unpacked: 2Mi, files: 3, subchartDepth: 4, rendered: "5000", renderTime: 1.5s, memory: 6Gi}
registries:
- {host: registry.example.org, insecureSkipTLSVerify: true}
- {host: "localhost:5000", plainHTTP: true}
- {host: "[::1]:5000", caData: ` + strconv.Quote(authority) + `}
`,
			Want: settings.Settings{
				Workers: 1, MaxHistory: 2,
				ChartCache: settings.ChartCache{Bytes: 1_610_612_736, MaxAge: 90 * time.Minute},
				Limits: settings.Limits{
					ArchiveBytes: 1_000_000, UnpackedBytes: 2_097_152, Files: 3, SubchartDepth: 4, RenderedBytes: 5000,
					RenderTime: 1500 * time.Millisecond, MemoryBytes: 6_442_450_944,
				},
				Registries: []fetch.Registry{
					{Host: "registry.example.org", InsecureSkipTLSVerify: true},
					{Host: "localhost:5000", PlainHTTP: true},
					{Host: "[::1]:5000", CAData: []byte(authority)},
				},
			},
		},
		"Least": {
			Reason: "the bounds themselves are allowed", Document: head + "chartCache: {size: 20Mi, maxAge: 1s}\nlimits: {renderTime: 100ms, memory: 128Mi}\n",
			Want: defaults(func(s *settings.Settings) {
				s.ChartCache = settings.ChartCache{Bytes: 20_971_520, MaxAge: time.Second}
				s.Limits.RenderTime, s.Limits.MemoryBytes = 100*time.Millisecond, 134_217_728
			}),
		},
	}, settings.Load,
		cmp.Transformer("text", func(b []byte) string { return string(b) }))
	if diff := cmp.Diff(defaults(), settings.Default()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestLoadReports(t *testing.T) {
	t.Parallel()
	pemText := func(kind string) string {
		return strconv.Quote(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("nonsense")})))
	}
	schematest.MustRefuse(t, schema, map[string]schematest.Refused{
		"AllAtOnce": {
			Reason: "nobody wants to find one mistake after the other",
			Document: `
kind: Configuration
identity: x
targets: {burst: 0}
workers: 0
maxHistory: 0
chartCache: {size: 1Ki, maxAge: 0s, dir: /}
limits: {archive: "-1", unpacked: "1e9", files: 0, subchartDepth: 101, rendered: big, renderTime: 2h, memory: 127Mi}
registries: [{host: "https://a"}]
`,
			Want: []string{
				`: unknown field "chartCache.dir"`, `: unknown field "identity"`, `: unknown field "targets"`,
				`apiVersion: expected helm.pergola.dev/v1alpha1, but found ""`, `kind: expected HelmConfiguration, but found "Configuration"`,
				"workers: expected a number from 1 to 100, but found 0", "maxHistory: expected a number from 1 to 1000, but found 0",
				`limits.archive: expected an amount from 1Ki to 1Gi, such as 20Mi, but found "-1"`,
				`limits.unpacked: expected an amount from 1Ki to 10Gi, such as 20Mi, but found "1e9"`,
				"limits.files: expected a number from 1 to 1000000, but found 0", "limits.subchartDepth: expected a number from 1 to 100, but found 101",
				`limits.rendered: expected an amount from 1Ki to 1Gi, such as 20Mi, but found "big"`,
				`limits.renderTime: expected a time from 100ms to 1h0m0s, such as 90s or 1h30m, but found "2h"`,
				"limits.memory: expected an amount from 128Mi to 1Ti, such as 20Mi, but found 127Mi",
				"chartCache.size: expected at least 20Mi, which limits.archive lets a single chart have, but found 1Ki",
				`chartCache.maxAge: expected a time from 1s to 87600h0m0s, such as 90s or 1h30m, but found "0s"`,
				`registries[0].host: expected a host in lower case, such as registry.example.org or registry.example.org:5000, but found "https://a"`,
			},
		},
		"Cache": {
			Reason: "a chart that is allowed has to find room", Document: head + "limits: {archive: 600Mi}\n", Beyond: true,
			Want: []string{"chartCache.size: expected at least 600Mi, which limits.archive lets a single chart have, but found 500Mi"},
		},
		"Hosts": {
			Reason:   "an entry that never fits is a mistake",
			Document: head + "registries: [{host: ''}, {host: A.example.org}, {host: a/b}, {host: 'u:p@a'}, {host: 'a:'}, {host: '*.a'}, {host: 'a b'}]\n",
			Want: []string{
				"registries[0].host", "registries[1].host", "registries[2].host", "registries[3].host", "registries[4].host", "registries[5].host", "registries[6].host",
			},
		},
		"HostTwice": {
			Reason: "one of the two would be lost", Document: head + "registries: [{host: a}, {host: b}, {host: a}]\n", Beyond: true,
			Want: []string{"registries[2].host: a is there twice"},
		},
		"Contradictions": {
			Reason: "an operator who trusts an authority does not trust everybody", Beyond: true,
			Document: head + "registries: [{host: a, plainHTTP: true, insecureSkipTLSVerify: true}, {host: b, plainHTTP: true, caData: x}, {host: c, insecureSkipTLSVerify: true, caData: x}]\n",
			Want: []string{
				"registries[0].insecureSkipTLSVerify: has no meaning with plainHTTP", "registries[1].caData: has no meaning with plainHTTP",
				"registries[1].caData: expected certificates in PEM: found none", "registries[2].caData: has no meaning with insecureSkipTLSVerify",
				"registries[2].caData: expected certificates in PEM: found none",
			},
		},
		"Certificates": {
			Reason: "a key in the place of a certificate is told, and so is nonsense", Beyond: true,
			Document: head + "registries: [{host: a, caData: " + pemText("PRIVATE KEY") + "}, {host: b, caData: " + pemText("CERTIFICATE") + "}]\n",
			Want: []string{
				`registries[0].caData: expected certificates in PEM: found "PRIVATE KEY" as number 1`, "registries[1].caData: expected certificates in PEM: read number 1: ",
			},
		},
		"WrongType": {Reason: "the field is named", Document: head + "limits: {archive: 20}\n", Want: []string{"limits.archive: expected string, but found number"}},
	}, settings.Load)
}
