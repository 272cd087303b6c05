package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	const (
		noVersion = `apiVersion: expected "host.pergola.dev/v1alpha1", but found ""`
		noKind    = `kind: expected "HostConfiguration", but found ""`
	)
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"empty":   {reason: "it must say what it is", text: "", want: []string{noVersion, noKind}},
		"comment": {reason: "as good as empty", text: "---\n# nothing\n", want: []string{noVersion, noKind}},
		"no version": {
			reason: "the rest is read nevertheless", text: "workers: 0",
			want: []string{noVersion, noKind, "workers: expected a number from 1 to 1000, but found 0"},
		},
		"another version": {
			reason: "the fields of another version say nothing about this one",
			text:   "apiVersion: host.pergola.dev/v2\nkind: HostConfiguration\nthreads: 5\nworkers: many",
			want:   []string{`apiVersion: expected "host.pergola.dev/v1alpha1", but found "host.pergola.dev/v2"`},
		},
		"token": {
			reason: "what a file holds that is something else is nobody's business",
			text:   "eyJhbGciOiJSUzI1NiJ9.e30.c2VjcmV0",
			want:   []string{"expected an object, but found something else"},
		},
		"documents": {
			reason: "which one is meant?", text: head + "---\n" + head,
			want: []string{"holds several YAML documents; expected one"},
		},
		"syntax": {
			reason: "the line", text: head + "workers: [",
			want: []string{"is no valid YAML: line 3: did not find expected node content"},
		},
		"duplicates": {
			reason: "which one is meant?", text: head + "workers: 1\nworkers: 2\nplugins:\n  helm: {config: {a: 1, a: 2}}",
			want: []string{`is no valid YAML: unmarshal errors: line 4: key "workers" already set in map line 6: key "a" already set in map`},
		},
		"unknown": {
			reason: "with the full path, and together with wrong values",
			text:   head + "workers: 0\nWorkers: 2\ntimeouts: {pickUp: 1m}\nplugins: {helm: {conf: {}}}\ntargetSelectors: [{}, {labels: [{key: a, operator: exists, value: b}]}]",
			want: []string{
				"Workers: unknown field", "timeouts.pickUp: unknown field", "targetSelectors[1].labels[0].value: unknown field", "plugins.helm.conf: unknown field",
				"workers: expected a number from 1 to 1000, but found 0",
			},
		},
		"a type": {
			reason: "path, expected and found", text: head + "client: {burst: 1.5}",
			want: []string{"client.burst: expected a whole number, but found number 1.5"},
		},
		"no text": {
			reason: "the same", text: head + "listenAddress: 8080",
			want: []string{"listenAddress: expected a text, but found a number; quotes make it a text"},
		},
		"no truth": {
			reason: "the same", text: head + "tracing: {insecure: maybe}",
			want: []string{"tracing.insecure: expected true or false, but found a text"},
		},
		"no number": {
			reason: "the same", text: head + "tracing: {sampleRatio: all}",
			want: []string{"tracing.sampleRatio: expected a number, but found a text"},
		},
		"no duration": {
			reason: "the same", text: head + "timeouts: {abort: 5m1}",
			want: []string{`timeouts.abort: expected a duration such as 30s or 5m, but found "5m1"`},
		},
		"entries": {
			reason: "each is read by itself, and its problems name it",
			text:   head + "targetSelectors: [5, {labels: {}}]\nplugins: {a: 5, b: {workers: \"3\"}, c: {conf: 1}, d: {confinement: {read: [5]}}}",
			want: []string{
				"targetSelectors[0]: expected an object, but found a number", "targetSelectors[1].labels: expected a list, but found an object",
				"plugins.a: expected an object, but found a number", "plugins.b.workers: expected a whole number, but found a text", "plugins.c.conf: unknown field",
				"plugins.d.confinement.read: expected a text, but found a number; quotes make it a text",
			},
		},
		"empty entry": {
			reason: "a dash alone must not select everything", text: head + "targetSelectors:\n-\n- targets: [~]",
			want: []string{"targetSelectors[0]: expected an object, but found nothing", "targetSelectors[1].targets[0].name: expected the name of a Target, but it is empty"},
		},
		"values": {
			reason: "what the types allow and the host does not; together with what they do not allow",
			text: head + `
identity: ""
targetSelectors:
- labels: [{key: a, operator: is}]
- targets: [{namespace: shop}]
targetServiceAccount: ../other/admin
workers: 1001
locking: always
lockPrefix: Prod_
timeouts: {pickup: soon, progressing: -1s, abort: 0s, pluginStart: 0s, pluginStop: -1s, pluginSilence: 14999ms, hook: 999ms, shutdown: 0s, lease: 2999ms}
continuousReconcile: {minimumInterval: 999ms, jitter: -1s}
maxPluginCrashes: 0
client: {burst: 5}
clusterDomain: .local
listenAddress: "8080"
pprofAddress: 0.0.0.0:6060
tracing: {endpoint: "https://collector:4317", sampleRatio: 0}
statusPage: {listenAddress: localhost, hostNames: [status.example.org, "*.example.org"]}
log: {level: loud, format: xml}
plugins: {Helm_3: {workers: -1}}
typo: 1
`,
			want: []string{
				"typo: unknown field",
				`identity: expected 1 to 253 printable characters, but found ""`,
				`targetSelectors[0].labels[0].operator: expected one of =, ==, !=, in, notin, exists, !, gt, lt, but found "is"`,
				"targetSelectors[1].targets[0].name: expected the name of a Target, but it is empty",
				`targetServiceAccount: expected the name of a ServiceAccount, such as deployer, but found "../other/admin"`,
				"workers: expected a number from 1 to 1000, but found 1001",
				`locking: expected auto, on or off, but found "always"`,
				`lockPrefix: expected at most 40 of a-z, 0-9 and -, without - at the beginning, but found "Prod_"`,
				`timeouts.pickup: expected a duration such as 10m or 1h30m, or "none", but found "soon"`,
				`timeouts.progressing: expected a positive duration, but found "-1s"`,
				"timeouts.abort: expected a duration above zero, such as 30s, but found 0s",
				"timeouts.pluginStart: expected a duration above zero, such as 30s, but found 0s",
				"timeouts.pluginStop: expected a duration above zero, such as 30s, but found -1s",
				"timeouts.shutdown: expected a duration above zero, such as 30s, but found 0s",
				"timeouts.pluginSilence: expected a duration from 15s to 60m, but found 14.999s",
				"timeouts.hook: expected a duration from 1s to 5m, but found 999ms",
				"timeouts.lease: expected a duration from 3s to 60m, but found 2.999s",
				"continuousReconcile.minimumInterval: expected a duration from 1s to 24h, but found 999ms",
				"continuousReconcile.jitter: expected a duration from 0s to 24h, but found -1s",
				"maxPluginCrashes: expected a number from 1 to 100, but found 0",
				"client.qps: is missing; set it together with burst, or neither for no limit",
				`clusterDomain: expected a DNS name such as cluster.local, but found ".local"`,
				`listenAddress: expected host and port such as :8080 or 127.0.0.1:8080, but found "8080"`,
				`pprofAddress: expected a loopback address such as 127.0.0.1:6060, because profiles are not for others to see, but found "0.0.0.0:6060"`,
				`tracing.endpoint: expected host and port of a collector, such as collector:4317, but found "https://collector:4317"`,
				"tracing.sampleRatio: expected a number above 0 and up to 1, but found 0; leave the endpoint out for no traces",
				`statusPage.hostNames[1]: expected a DNS name such as status.example.org, but found "*.example.org"`,
				`statusPage.listenAddress: expected host and port such as :9080, but found "localhost"`,
				`log.level: expected debug, info, warn or error, but found "loud"`,
				`log.format: expected json or text, but found "xml"`,
				"plugins.Helm_3: expected the name that a plugin gives itself, a DNS label such as helm",
				"plugins.Helm_3.workers: expected a number from 0 to 1000, but found -1",
			},
		},
		"profiles for all": {
			reason: "all addresses, a name that may be anything, and no address", text: head + "pprofAddress: :6060\ntracing: {endpoint: ':4317', sampleRatio: 1.1}",
			want: []string{
				`pprofAddress: expected a loopback address such as 127.0.0.1:6060, because profiles are not for others to see, but found ":6060"`,
				`tracing.endpoint: expected host and port of a collector, such as collector:4317, but found ":4317"`,
				"tracing.sampleRatio: expected a number above 0 and up to 1, but found 1.1; leave the endpoint out for no traces",
			},
		},
		"rates": {
			reason: "numbers that make no limit", text: head + "client: {qps: 1e300, burst: -1}",
			want: []string{
				"client.qps: expected a number from 1 to 1000000, or 0 for no limit, but found 1e+300",
				"client.burst: expected a number from 1 to 1000000, or 0 for no limit, but found -1",
			},
		},
		"long lock prefix": {
			reason: "names of locks end at 253 characters", text: head + "lockPrefix: " + strings.Repeat("x", 41),
			want: []string{`lockPrefix: expected at most 40 of a-z, 0-9 and -, without - at the beginning, but found "` + strings.Repeat("x", 41) + `"`},
		},
		"long silence": {
			reason: "a wedged plugin must be noticed, and a job that ends it must fail", text: head + "timeouts: {pluginSilence: 1h1s}\nmaxPluginCrashes: 101\ncollectInterval: 25h",
			want: []string{"timeouts.pluginSilence: expected a duration from 15s to 60m, but found 1h0m1s", "maxPluginCrashes: expected a number from 1 to 100, but found 101",
				"collectInterval: expected a duration from 60s to 24h, but found 25h0m0s"},
		},
		"long hooks": {
			reason: "a job waits for its hooks, and nobody wants a day between what is due and its job", text: head + "timeouts: {hook: 301s}\ncontinuousReconcile: {minimumInterval: 24h1s, jitter: 24h1s}",
			want: []string{
				"timeouts.hook: expected a duration from 1s to 5m, but found 5m1s",
				"continuousReconcile.minimumInterval: expected a duration from 1s to 24h, but found 24h0m1s",
				"continuousReconcile.jitter: expected a duration from 0s to 24h, but found 24h0m1s",
			},
		},
		"long lease": {
			reason: "a node that is lost must be noticed", text: head + "timeouts: {lease: 1h0m1s}",
			want: []string{"timeouts.lease: expected a duration from 3s to 60m, but found 1h0m1s"},
		},
		"qps alone": {
			reason: "both or none", text: head + "client: {qps: 5}",
			want: []string{"client.burst: is missing; set it together with qps, or neither for no limit"},
		},
		"long identity": {
			reason: "it is in each status", text: head + "identity: " + strings.Repeat("x", 254),
			want: []string{`identity: expected 1 to 253 printable characters, but found "` + strings.Repeat("x", 254) + `"`},
		},
		"unprintable": {
			reason: "one line", text: head + `identity: "a\nb"`,
			want: []string{`identity: expected 1 to 253 printable characters, but found "a\nb"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectProblems(t, tc.reason, tc.text, tc.want)
		})
	}
}

// expectProblems checks all that is said to be wrong with a text.
func expectProblems(t *testing.T, reason, text string, want []string) {
	t.Helper()
	_, err := config.Parse("host.yaml", []byte(text), "host")
	if err == nil {
		t.Fatalf("%s: expected errors", reason)
	}
	got := strings.Split(strings.ReplaceAll("\n"+err.Error(), "\nhost.yaml: ", "\n"), "\n")[1:]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}
