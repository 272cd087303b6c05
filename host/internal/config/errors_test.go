package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	const (
		noVersion = `apiVersion: is missing; expected "host.pergola.dev/v1alpha1"`
		noKind    = `kind: is missing; expected "HostConfiguration"`
		rootNames = "apiVersion, kind, identity, targetSelectors, targetServiceAccount, workers, locking, lockPrefix, timeouts, continuousReconcile, maxPluginCrashes, collectInterval, client, clusterDomain, listenAddress, pprofAddress, tracing, statusPage, log, verification, pluginFiles, plugins"
	)
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"empty":      {reason: "it must say what it is", text: "", want: []string{noVersion, noKind}},
		"comment":    {reason: "as good as empty", text: "# nothing\n", want: []string{noVersion, noKind}},
		"null":       {reason: "as good as empty", text: "---\n", want: []string{noVersion, noKind}},
		"JSON null":  {reason: "as good as empty", text: "null", want: []string{noVersion, noKind}},
		"no version": {reason: "the rest is read nevertheless", text: "workers: 0", want: []string{noVersion, noKind, "workers: expected a number from 1 to 1000, but found 0"}},
		"another version": {
			reason: "the fields of another version say nothing about this one",
			text:   "apiVersion: host.pergola.dev/v2\nkind: HostConfiguration\nthreads: 5\nworkers: many",
			want:   []string{`apiVersion: expected "host.pergola.dev/v1alpha1", but found "host.pergola.dev/v2"`},
		},
		"another kind": {
			reason: "the same", text: "apiVersion: v1\nkind: Config\nclusters: []",
			want: []string{`apiVersion: expected "host.pergola.dev/v1alpha1", but found "v1"`, `kind: expected "HostConfiguration", but found "Config"`},
		},
		"list":        {reason: "no object", text: "- a", want: []string{"expected an object, but found a list"}},
		"text":        {reason: "no object", text: "a", want: []string{"expected an object, but found a single value"}},
		"token":       {reason: "what a file holds that is something else is nobody's business", text: "eyJhbGciOiJSUzI1NiJ9.e30.c2VjcmV0", want: []string{"expected an object, but found a single value"}},
		"JSON number": {reason: "no object", text: "5", want: []string{"expected an object, but found a single value"}},
		"documents":   {reason: "which one is meant?", text: head + "---\n" + head, want: []string{"holds several YAML documents; expected one"}},
		"syntax":      {reason: "the line", text: head + "workers: [", want: []string{"is no valid YAML: line 3: did not find expected node content"}},
		"broken second document": {
			reason: "the line", text: head + "---\n[", want: []string{"is no valid YAML: line 4: did not find expected node content"},
		},
		"anchor": {
			reason: "names may be long", text: "a: *" + strings.Repeat("a", 1000),
			want: []string{"is no valid YAML: unknown anchor '" + strings.Repeat("a", 112) + "..."},
		},
		"encoding": {reason: "no text", text: "\xff", want: []string{"is not UTF-8"}},
		"size":     {reason: "far too much", text: strings.Repeat("#", 1<<20+1), want: []string{"is larger than 1048576 bytes"}},
		"unknown": {
			reason: "with the full path, and what there is",
			text:   head + "worker: 1\nWorkers: 2\ntimeouts: {pickUp: 1m}\nplugins: {helm: {conf: {}}}\ntargetSelectors: [{}, {labels: [{key: a, operator: exists, value: b}]}]\n\"a b\": 1",
			want: []string{
				"worker: unknown field; expected one of " + rootNames, "Workers: unknown field; expected one of " + rootNames,
				"timeouts.pickUp: unknown field; expected one of pickup, progressing, abort, pluginStart, pluginStop, pluginSilence, hook, shutdown, lease",
				"plugins.helm.conf: unknown field; expected one of file, sha256, args, environment, workers, memory, openFiles, confinement, hostCluster, config",
				"targetSelectors[1].labels[0].value: unknown field; expected one of key, operator, values",
				`"a b": unknown field; expected one of ` + rootNames,
			},
		},
		"duplicates": {
			reason: "which one is meant?",
			text:   head + "workers: 1\nworkers: 2\nplugins:\n  helm: {config: {a: 1, a: 2}}\n  helm: {}\n",
			want:   []string{"workers: appears twice; leave one of them", "plugins.helm.config.a: appears twice; leave one of them", "plugins.helm: appears twice; leave one of them"},
		},
		"types": {
			reason: "path, expected and found",
			text: head + `
identity: 5
targetSelectors: {}
targetServiceAccount: {name: deployer}
workers: many
locking: {}
lockPrefix: 5
timeouts: {pickup: 5, progressing: [1], abort: 5m1, pluginStart: 30, pluginStop: {}, pluginSilence: long, hook: 10, shutdown: none, lease: 15}
continuousReconcile: {minimumInterval: "10", jitter: [1s]}
maxPluginCrashes: few
client: {qps: fast, burst: 1.5}
clusterDomain: 5
listenAddress: [a]
pprofAddress: 6060
tracing: {endpoint: {}, insecure: "yes", sampleRatio: all}
statusPage: {listenAddress: 9080, hostNames: localhost}
log: {level: true, format: 7}
plugins: {a: 5, b: {workers: "3", config: text}}
`,
			want: []string{
				"identity: expected a text, but found the number 5 (quotes make it a text)",
				"targetSelectors: expected a list, but found an object",
				"targetServiceAccount: expected a text, but found an object",
				`workers: expected a whole number, but found the text "many"`,
				"locking: expected a text, but found an object",
				"lockPrefix: expected a text, but found the number 5 (quotes make it a text)",
				"timeouts.pickup: expected a text, but found the number 5 (quotes make it a text)",
				"timeouts.progressing: expected a text, but found a list",
				`timeouts.abort: expected a duration such as 30s or 5m, but found "5m1"`,
				"timeouts.pluginStart: expected a duration such as 30s or 5m, but found the number 30",
				"timeouts.pluginStop: expected a duration such as 30s or 5m, but found an object",
				`timeouts.pluginSilence: expected a duration such as 30s or 5m, but found "long"`,
				"timeouts.hook: expected a duration such as 30s or 5m, but found the number 10",
				`timeouts.shutdown: expected a duration such as 30s or 5m, but found "none"`,
				"timeouts.lease: expected a duration such as 30s or 5m, but found the number 15",
				`continuousReconcile.minimumInterval: expected a duration such as 30s or 5m, but found "10"`,
				"continuousReconcile.jitter: expected a duration such as 30s or 5m, but found a list",
				`maxPluginCrashes: expected a whole number, but found the text "few"`,
				`client.qps: expected a number, but found the text "fast"`,
				"client.burst: expected a whole number, but found the number 1.5",
				"clusterDomain: expected a text, but found the number 5 (quotes make it a text)",
				"listenAddress: expected a text, but found a list",
				"pprofAddress: expected a text, but found the number 6060 (quotes make it a text)",
				"tracing.endpoint: expected a text, but found an object",
				`tracing.insecure: expected true or false, but found the text "yes"`,
				`tracing.sampleRatio: expected a number, but found the text "all"`,
				"statusPage.listenAddress: expected a text, but found the number 9080 (quotes make it a text)",
				"statusPage.hostNames: expected a list, but found the text \"localhost\"",
				"log.level: expected a text, but found true (quotes make it a text)",
				"log.format: expected a text, but found the number 7 (quotes make it a text)",
				"plugins.a: expected an object, but found the number 5",
				`plugins.b.workers: expected a whole number, but found the text "3"`,
				"plugins.b.config: expected an object with the fields that the plugin documents",
			},
		},
		"values": {
			reason: "what the types allow and the host does not; together with what they do not allow",
			text: head + `
identity: ""
targetSelectors:
- labels: [{key: a, operator: is}]
- targets: [{namespace: n}]
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
statusPage: {listenAddress: localhost, hostNames: [status.example.org, "*.example.org", status.example.org]}
log: {level: loud, format: xml}
plugins: {Helm_3: {workers: -1}}
typo: 1
`,
			want: []string{
				"typo: unknown field; expected one of " + rootNames,
				"identity: expected a name for this installation, but it is empty",
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
				"timeouts.pluginSilence: expected a duration from 15s to 1h, but found 14.999s",
				"timeouts.hook: expected a duration from 1s to 5m, but found 999ms",
				"timeouts.lease: expected a duration from 3s to 1h, but found 2.999s",
				"maxPluginCrashes: expected a number from 1 to 100, but found 0",
				"continuousReconcile.minimumInterval: expected a duration from 1s to 24h, but found 999ms",
				"continuousReconcile.jitter: expected a duration from 0s to 24h, but found -1s",
				"client.qps: is missing; set it together with burst, or neither for no limit",
				`clusterDomain: expected a DNS name such as cluster.local, but found ".local"`,
				`listenAddress: expected host and port such as :8080 or 127.0.0.1:8080, but found "8080"`,
				`pprofAddress: expected a loopback address such as 127.0.0.1:6060, because profiles are not for others to see, but found "0.0.0.0:6060"`,
				`tracing.endpoint: expected host and port of a collector, such as collector:4317, but found "https://collector:4317"`,
				"tracing.sampleRatio: expected a number above 0 and up to 1, but found 0; leave the endpoint out for no traces",
				`statusPage.hostNames[1]: expected a DNS name such as status.example.org, but found "*.example.org"`,
				"statusPage.hostNames[2]: appears twice; leave one of them",
				`statusPage.listenAddress: expected host and port such as :8080 or 127.0.0.1:8080, but found "localhost"`,
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
		"profiles for a name": {
			reason: "it may be any address", text: head + "pprofAddress: example.org:6060",
			want: []string{`pprofAddress: expected a loopback address such as 127.0.0.1:6060, because profiles are not for others to see, but found "example.org:6060"`},
		},
		"profiles without a port": {
			reason: "as with the other address", text: head + "pprofAddress: 127.0.0.1",
			want: []string{`pprofAddress: expected host and port such as :8080 or 127.0.0.1:8080, but found "127.0.0.1"`},
		},
		"rates": {
			reason: "numbers that make no limit", text: head + "client: {qps: 1e300, burst: -1}",
			want: []string{
				"client.qps: expected a number from 1 to 1000000, or 0 for no limit, but found 1e+300",
				"client.burst: expected a number from 1 to 1000000, or 0 for no limit, but found -1",
			},
		},
		"locking": {
			reason: "only on and off need no quotes, and only as the value of the field itself",
			text:   head + "locking: yes\nidentity: on\nlog: {mode: off}\nplugins: {p: {config: {locking: on, mode: off, confinement: {mode: off}}}}",
			want: []string{
				"identity: some parsers read on as true or false; write that, or quotes around a text",
				"log.mode: some parsers read off as true or false; write that, or quotes around a text",
				"plugins.p.config.locking: some parsers read on as true or false; write that, or quotes around a text",
				"plugins.p.config.mode: some parsers read off as true or false; write that, or quotes around a text",
				"plugins.p.config.confinement.mode: some parsers read off as true or false; write that, or quotes around a text",
				`locking: expected auto, on or off, but found "yes"`,
			},
		},
		"another case":      {reason: "as any other text", text: head + "locking: On", want: []string{`locking: expected auto, on or off, but found "On"`}},
		"list of switches":  {reason: "it is one value", text: head + "locking: [true]", want: []string{"locking: expected a text, but found a list"}},
		"tagged switch":     {reason: "a tag is one here, too", text: head + "locking: !!bool on", want: []string{"locking: YAML tags are not allowed; quotes make a value a text"}},
		"empty switch":      {reason: "quotes with nothing in them are no value", text: head + "locking: ''", want: []string{`locking: expected auto, on or off, but found ""`}},
		"two switches":      {reason: "which one is meant?", text: head + "locking: on\nlocking: off", want: []string{"locking: appears twice; leave one of them"}},
		"long lock prefix":  {reason: "names of locks end at 253 characters", text: head + "lockPrefix: " + strings.Repeat("x", 41), want: []string{`lockPrefix: expected at most 40 of a-z, 0-9 and -, without - at the beginning, but found "` + strings.Repeat("x", 41) + `"`}},
		"lock prefix's dot": {reason: "a part of a label has none", text: head + "lockPrefix: a.b", want: []string{`lockPrefix: expected at most 40 of a-z, 0-9 and -, without - at the beginning, but found "a.b"`}},
		"lock prefix's beginning": {
			reason: "a name begins with a letter or a digit", text: head + "lockPrefix: -a",
			want: []string{`lockPrefix: expected at most 40 of a-z, 0-9 and -, without - at the beginning, but found "-a"`},
		},
		"long silence": {
			reason: "a wedged plugin must be noticed, and a job that ends it must fail", text: head + "timeouts: {pluginSilence: 1h1s}\nmaxPluginCrashes: 101\ncollectInterval: 25h",
			want: []string{"timeouts.pluginSilence: expected a duration from 15s to 1h, but found 1h0m1s", "maxPluginCrashes: expected a number from 1 to 100, but found 101",
				"collectInterval: expected a duration from 1m to 24h, but found 25h0m0s"},
		},
		"long hooks": {
			reason: "a job waits for its hooks, and nobody wants a day between what is due and its job", text: head + "timeouts: {hook: 301s}\ncontinuousReconcile: {minimumInterval: 24h1s, jitter: 24h1s}",
			want: []string{
				"timeouts.hook: expected a duration from 1s to 5m, but found 5m1s",
				"continuousReconcile.minimumInterval: expected a duration from 1s to 24h, but found 24h0m1s",
				"continuousReconcile.jitter: expected a duration from 0s to 24h, but found 24h0m1s",
			},
		},
		"no cluster domain": {reason: "names need one", text: head + "clusterDomain: ''", want: []string{`clusterDomain: expected a DNS name such as cluster.local, but found ""`}},
		"long lease":        {reason: "a node that is lost must be noticed", text: head + "timeouts: {lease: 1h0m1s}", want: []string{"timeouts.lease: expected a duration from 3s to 1h, but found 1h0m1s"}},
		"qps alone":         {reason: "both or none", text: head + "client: {qps: 5}", want: []string{"client.burst: is missing; set it together with qps, or neither for no limit"}},
		"numbers": {
			reason: "only those that JSON knows, so that nobody reads them differently",
			text:   head + "workers: 0x10\nclient: {qps: .inf, burst: 99999999999999999999}\nplugins: {a: {workers: 010, config: {a: 1_000, b: .nan}}}",
			want: []string{
				`workers: expected a number as JSON writes it, in decimal digits without leading zeros; quotes make it a text`,
				`client.qps: expected a number as JSON writes it, in decimal digits without leading zeros; quotes make it a text`,
				`plugins.a.workers: expected a number as JSON writes it, in decimal digits without leading zeros; quotes make it a text`,
				`plugins.a.config.a: expected a number as JSON writes it, in decimal digits without leading zeros; quotes make it a text`,
				`plugins.a.config.b: expected a number as JSON writes it, in decimal digits without leading zeros; quotes make it a text`,
				"client.burst: expected a whole number, but found the number 99999999999999999999",
			},
		},
		"empty entry": {
			reason: "a dash alone must not select everything", text: head + "targetSelectors:\n-\n- labels: [~]",
			want: []string{"targetSelectors[0]: expected a value, but found nothing", "targetSelectors[1].labels[0]: expected a value, but found nothing"},
		},
		"features of YAML": {
			reason: "nothing that parsers differ about",
			text:   head + "identity: &a x\nplugins: {p: {config: {a: *a, b: !!binary aGk=, c: {<<: {x: y}}, d: {1: x}, e: yes, f: {on: x}, g: {[k]: v}}}}",
			want: []string{
				"plugins.p.config.a: YAML aliases are not allowed; write the value out",
				"plugins.p.config.b: YAML tags are not allowed; quotes make a value a text",
				"plugins.p.config.c: expected texts as keys, but found a merge key; quotes make a key a text",
				"plugins.p.config.d: expected texts as keys, but found the number 1; quotes make a key a text",
				"plugins.p.config.e: some parsers read yes as true or false; write that, or quotes around a text",
				"plugins.p.config.f: expected texts as keys, but found on; quotes make a key a text",
				"plugins.p.config.g: expected texts as keys, but found a list; quotes make a key a text",
			},
		},
		"operators": {
			reason: "what begins with an exclamation mark is a tag without quotes",
			text:   head + "targetSelectors:\n- labels:\n  - {key: a, operator: =, values: [b]}\n  - {key: a, operator: ==, values: [b]}\n  - key: a\n    operator: !\n  - key: a\n    operator: !=\n    values: [b]\n",
			want: []string{
				"targetSelectors[0].labels[3].operator: YAML tags are not allowed; quotes make a value a text",
				`targetSelectors[0].labels[2].operator: expected one of =, ==, !=, in, notin, exists, !, gt, lt, but found ""`,
			},
		},
		"depth": {
			reason: "no path without end", text: head + "plugins: {p: {config: {a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}}}",
			want: []string{"plugins.p.config.a" + strings.Repeat("[0]", 97) + ": is nested deeper than 100 levels"},
		},
		"long identity":  {reason: "it is in each status", text: head + "identity: " + strings.Repeat("x", 254), want: []string{`identity: expected at most 253 printable characters, but found "` + strings.Repeat("x", 64) + `..."`}},
		"unprintable":    {reason: "one line", text: head + `identity: "a\nb"`, want: []string{`identity: expected at most 253 printable characters, but found "a\nb"`}},
		"long durations": {reason: "quoted in part", text: head + "timeouts: {pickup: " + strings.Repeat("x", 100) + ", abort: " + strings.Repeat("x", 100) + "}", want: []string{`timeouts.abort: expected a duration such as 30s or 5m, but found the text "` + strings.Repeat("x", 64) + `..."`, `timeouts.pickup: expected a duration such as 10m, but found "` + strings.Repeat("x", 64) + `..."`}},
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
	var configErr *config.Error
	if !errors.As(err, &configErr) {
		t.Fatalf("%s: expected a *config.Error, but found %v", reason, err)
	}
	got := strings.Split(strings.ReplaceAll("\n"+err.Error(), "\nhost.yaml: ", "\n"), "\n")[1:]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}

func TestErrorsAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(head)
	for i := range 1000 {
		fmt.Fprintf(&text, "x%d: 1\n", i)
	}
	_, err := config.Parse("host.yaml", []byte(text.String()), "host")
	if err == nil {
		t.Fatal("expected an error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 101 || lines[100] != "host.yaml: there are more errors than these 100" {
		t.Errorf("expected a hundred errors and a last line, but found %d that end with %q", len(lines), lines[len(lines)-1])
	}
}

// A megabyte of anything is refused, or read, in a moment.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for i := range 20 {
		this, before := string(rune('b'+i)), string(rune('a'+i))
		bomb += this + ": &" + this + " [" + strings.Repeat("*"+before+", ", 8) + "*" + before + "]\n"
	}
	fill := func(text string) string { return strings.Repeat(text, (1<<20)/len(text)) }
	for name, text := range map[string]string{
		"alias bomb":   head + bomb,
		"lists":        fill("["),
		"objects":      fill("{a: "),
		"JSON lists":   strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		"dashes":       fill("- "),
		"questions":    fill("? "),
		"documents":    fill("---\n"),
		"comments":     fill("#\n"),
		"indentation":  head + fill(" "),
		"tabs":         fill("\t"),
		"anchors":      fill("&a "),
		"entries":      head + "targetSelectors:\n" + strings.Repeat("- {}\n", 200_000),
		"bad entries":  head + "targetSelectors:\n" + strings.Repeat("- 5\n", 200_000),
		"keys":         fill("a: b\n"),
		"long key":     head + fill("x") + ": 1",
		"quotes":       fill("'"),
		"block":        head + "identity: |\n" + fill(" x\n"),
		"escapes":      head + `identity: "` + fill(`\n`),
		"digits":       head + "workers: " + strings.Repeat("9", 1_000_000),
		"float":        head + "client: {qps: " + strings.Repeat("9", 1_000_000) + "}",
		"nul":          fill("\x00"),
		"carriage":     fill("\r"),
		"self":         head + "plugins: &a {p: {config: *a}}",
		"deep config":  head + "plugins: {p: {config: " + strings.Repeat("{a: ", 5000) + "1" + strings.Repeat("}", 5000) + "}}",
		"arguments":    head + "plugins: {p: {args: [" + strings.Repeat("a,", 400_000) + "]}}",
		"memory":       head + "plugins: {p: {memory: '" + strings.Repeat("9", 1_000_000) + "'}}",
		"exponent":     head + "plugins: {p: {memory: '1e-99999999'}}",
		"flow entries": head + "targetSelectors: [" + strings.Repeat("{},", 300_000) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(text) > 1<<20 {
				text = text[:1<<20]
			}
			start := time.Now()
			_, err := config.Parse("host.yaml", []byte(text), "host")
			if took := time.Since(start); took > time.Minute {
				t.Errorf("took %s (%.100v)", took, err)
			} else {
				t.Logf("took %s", took)
			}
			if err != nil && len(err.Error()) > 100_000 {
				t.Errorf("%d bytes of errors", len(err.Error()))
			}
		})
	}
}
