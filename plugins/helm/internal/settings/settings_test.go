package settings_test

import (
	"encoding/pem"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/settings"
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
	for name, tc := range map[string]struct {
		reason, document string
		want             settings.Settings
	}{
		"Nothing": {reason: "an operator who says nothing gets the defaults", want: defaults()},
		"Everything": {
			reason: "what is said counts",
			document: head + `
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
			want: settings.Settings{
				Workers: 1, MaxHistory: 2,
				ChartCache: settings.ChartCache{Bytes: 1_610_612_736, MaxAge: 90 * time.Minute},
				Limits: settings.Limits{
					ArchiveBytes: 1_000_000, UnpackedBytes: 2_097_152, Files: 3, SubchartDepth: 4, RenderedBytes: 5000,
					RenderTime: 1500 * time.Millisecond, MemoryBytes: 6_442_450_944,
				},
				Registries: []chartsource.Registry{
					{Host: "registry.example.org", InsecureSkipTLSVerify: true},
					{Host: "localhost:5000", PlainHTTP: true},
					{Host: "[::1]:5000", CAData: []byte(authority)},
				},
			},
		},
		"Least": {
			reason: "the bounds themselves are allowed", document: head + "chartCache: {size: 20Mi, maxAge: 1s}\nlimits: {renderTime: 100ms, memory: 128Mi}\n",
			want: defaults(func(s *settings.Settings) {
				s.ChartCache = settings.ChartCache{Bytes: 20_971_520, MaxAge: time.Second}
				s.Limits.RenderTime, s.Limits.MemoryBytes = 100*time.Millisecond, 134_217_728
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := settings.Load([]byte(tc.document))
			if tc.document != "" {
				if err := schema.Validate(t, []byte(tc.document)); err != nil {
					t.Errorf("%s: the schema refuses it: %v", tc.reason, err)
				}
			}
			if len(problems) > 0 {
				t.Errorf("%s: %v", tc.reason, problems)
			}
			if diff := cmp.Diff(tc.want, got, cmp.Transformer("text", func(b []byte) string { return string(b) })); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	if diff := cmp.Diff(defaults(), settings.Default()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestLoadReports(t *testing.T) {
	t.Parallel()
	pemText := func(kind string) string {
		return strconv.Quote(string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("nonsense")})))
	}
	for name, tc := range map[string]struct {
		reason, document string
		want             []string
		// beyond says that a JSON schema cannot tell.
		beyond bool
	}{
		"AllAtOnce": {
			reason: "nobody wants to find one mistake after the other",
			document: `
kind: Configuration
identity: x
targets: {burst: 0}
workers: 0
maxHistory: 0
chartCache: {size: 1Ki, maxAge: 0s, dir: /}
limits: {archive: "-1", unpacked: "1e9", files: 0, subchartDepth: 101, rendered: big, renderTime: 2h, memory: 127Mi}
registries: [{host: "https://a"}]
`,
			want: []string{
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
		"Amounts": {
			reason: "a quantity of the library that takes minutes to read, or is read as zero, is none", document: head + "limits: {archive: '1e-9999999', rendered: 1024Gi, memory: 999999999999999Ti}\n",
			want: []string{"limits.archive: expected an amount", "limits.rendered: expected an amount", "limits.memory: expected an amount"},
		},
		"Cache": {
			reason: "a chart that is allowed has to find room", document: head + "limits: {archive: 600Mi}\n", beyond: true,
			want: []string{"chartCache.size: expected at least 600Mi, which limits.archive lets a single chart have, but found 500Mi"},
		},
		"Hosts": {
			reason:   "an entry that never fits is a mistake",
			document: head + "registries: [{host: ''}, {host: A.example.org}, {host: a/b}, {host: 'u:p@a'}, {host: 'a:'}, {host: '*.a'}, {host: 'a b'}]\n",
			want: []string{
				"registries[0].host", "registries[1].host", "registries[2].host", "registries[3].host", "registries[4].host", "registries[5].host", "registries[6].host",
			},
		},
		"HostTwice": {
			reason: "one of the two would be lost", document: head + "registries: [{host: a}, {host: b}, {host: a}]\n", beyond: true,
			want: []string{"registries[2].host: a is there twice"},
		},
		"Contradictions": {
			reason: "an operator who trusts an authority does not trust everybody", beyond: true,
			document: head + "registries: [{host: a, plainHTTP: true, insecureSkipTLSVerify: true}, {host: b, plainHTTP: true, caData: x}, {host: c, insecureSkipTLSVerify: true, caData: x}]\n",
			want: []string{
				"registries[0].insecureSkipTLSVerify: has no meaning with plainHTTP", "registries[1].caData: has no meaning with plainHTTP",
				"registries[1].caData: expected certificates in PEM: found none", "registries[2].caData: has no meaning with insecureSkipTLSVerify",
				"registries[2].caData: expected certificates in PEM: found none",
			},
		},
		"Certificates": {
			reason: "a key in the place of a certificate is told, and so is nonsense", beyond: true,
			document: head + "registries: [{host: a, caData: " + pemText("PRIVATE KEY") + "}, {host: b, caData: " + pemText("CERTIFICATE") + "}]\n",
			want: []string{
				`registries[0].caData: expected certificates in PEM: found "PRIVATE KEY" as number 1`, "registries[1].caData: expected certificates in PEM: read number 1: ",
			},
		},
		"WrongType": {reason: "the field is named", document: head + "limits: {archive: 20}\n", want: []string{"limits.archive: expected string, but found number"}},
		"Twice":     {reason: "one of the two would be lost", document: "workers: 1\nworkers: 2\n", want: []string{": expected YAML or JSON"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := settings.Load([]byte(tc.document))
			if !tc.beyond && schema.Validate(t, []byte(tc.document)) == nil {
				t.Errorf("%s: the schema accepts it", tc.reason)
			}
			var found []string
			for _, p := range problems {
				found = append(found, p.Field+": "+p.Message)
			}
			if len(found) != len(tc.want) {
				t.Fatalf("%s: expected %d problems, but found:\n%s", tc.reason, len(tc.want), strings.Join(found, "\n"))
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(found[i], want) {
					t.Errorf("%s: expected %q, but found %q", tc.reason, want, found[i])
				}
			}
		})
	}
}
