package config_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

const (
	noVersion = `apiVersion: expected "host.pergola.dev/v1alpha1", but found ""`
	noKind    = `kind: expected "HostConfiguration", but found ""`
)

// TestDocuments: what a document must be before its fields are looked at.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason, text string
		want         []string
	}{
		{"it must say what it is", "---\n# nothing\n", []string{noVersion, noKind}},
		{
			"the rest is read nevertheless", "workers: 0",
			[]string{noVersion, noKind, "workers: expected a number from 1 to 1000, but found 0"},
		},
		{
			"the fields of another version say nothing about this one",
			"apiVersion: host.pergola.dev/v2\nkind: HostConfiguration\nthreads: 5\nworkers: many",
			[]string{`apiVersion: expected "host.pergola.dev/v1alpha1", but found "host.pergola.dev/v2"`},
		},
		{
			"what a file holds that is something else is nobody's business", "eyJhbGciOiJSUzI1NiJ9.e30.c2VjcmV0",
			[]string{"expected an object, but found something else"},
		},
		{"which one is meant?", head + "---\n" + head, []string{"holds several YAML documents; expected one"}},
		{"the line", head + "workers: [", []string{"is no valid YAML: line 3: did not find expected node content"}},
		{
			"which one is meant?", head + "workers: 1\nworkers: 2\nplugins:\n  helm: {config: {a: 1, a: 2}}",
			[]string{`is no valid YAML: unmarshal errors: line 4: key "workers" already set in map ` +
				`line 6: key "a" already set in map`},
		},
		{
			"unknown fields with the full path, and together with wrong values",
			head + "workers: 0\nWorkers: 2\ntimeouts: {pickUp: 1m}\nplugins: {helm: {conf: {}}}\n" +
				"targetSelectors: [{}, {labels: [{key: a, operator: exists, value: b}]}]",
			[]string{
				"Workers: unknown field; did you mean workers?", "timeouts.pickUp: unknown field; did you mean pickup?",
				"targetSelectors[1].labels[0].value: unknown field; did you mean values?",
				"plugins.helm.conf: unknown field; did you mean config?",
				"workers: expected a number from 1 to 1000, but found 0",
			},
		},
		{
			"each entry is read by itself, and its problems name it",
			head + "targetSelectors: [5, {labels: {}}]\n" +
				"plugins: {a: 5, b: {workers: \"3\"}, c: {conf: 1}, d: {confinement: {read: [5]}}}",
			[]string{
				"targetSelectors[0]: expected an object, but found a number",
				"targetSelectors[1].labels: expected a list, but found an object",
				"plugins.a: expected an object, but found a number",
				"plugins.b.workers: expected a whole number, but found a text",
				"plugins.c.conf: unknown field; did you mean config?",
				"plugins.d.confinement.read: expected a text, but found a number; quotes make it a text",
			},
		},
		{
			"a dash alone must not select everything", head + "targetSelectors:\n-\n- targets: [~]",
			[]string{
				"targetSelectors[0]: expected an object, but found nothing",
				"targetSelectors[1].targets[0].name: expected the name of a Target, but it is empty",
			},
		},
	} {
		if diff := cmp.Diff(tc.want, problems(tc.text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

// problems are all lines of the error about a text.
func problems(text string) []string {
	_, err := config.Parse("host.yaml", []byte(text), "host")
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll("\n"+err.Error(), "\nhost.yaml: ", "\n"), "\n")[1:]
}

// TestErrors: a value that is wrong, with its path, what was expected and what was found.
// Rule (telemetry.md#profiles): Profiles are served on loopback alone.
func TestErrors(t *testing.T) {
	t.Parallel()
	var (
		long     = strings.Repeat("x", 254)
		sum      = strings.Repeat("a", 63)
		loopback = "pprofAddress: expected a loopback address such as 127.0.0.1:6060, " +
			"because profiles are not for others to see, "
		collector = "tracing.endpoint: expected host and port of a collector, such as collector:4317, "
		ratio     = "tracing.sampleRatio: expected a number above 0 and up to 1, but found %s; " +
			"leave the endpoint out for no traces"
		prefix  = "lockPrefix: expected at most 40 of a-z, 0-9 and -, without - at the beginning, but found "
		rate    = "expected a number from 1 to 1000000, or 0 for no limit, but found "
		badFile = "expected the name of a file in the plugin directory, " +
			"without / and without a dot at the beginning, but found "
		badSum   = "sha256: expected the 64 lower-case hexadecimal digits of a SHA-256, but found "
		badName  = "environment[0]: expected the name of an environment variable, letters, digits and _, but found "
		reserved = "environment[0]: expected a variable that plugins may be given, but found %q; " +
			"PERGOLA_*, PLUGIN_*, LD_*, GOMEMLIMIT and TMPDIR are reserved"
		badImage  = "image: expected an image such as registry.example.org/team/thing@sha256:…, but found "
		badMemory = "memory: expected an amount of memory such as 512Mi, but found "
		badAmount = "memory: expected an amount from 64Mi to 1Ti, or 0 for no limit, but found "
		badFiles  = "openFiles: expected a number from 64 to 1048576, or 0 for as many as the host, but found "
		badPath   = "expected an absolute path without . and .., and without needless slashes, but found "
		badRoot   = "expected a part of the file system, " +
			`but found "/", which leaves nothing to confine; use mode off for that`
		noEffect  = "has no effect with mode off; leave it out, or choose another mode"
		namespace = "hostCluster.serviceAccount.namespace: expected the name of a namespace, but found "
		account   = "hostCluster.serviceAccount.name: expected the name of a ServiceAccount, but found "
	)
	type rows [][]string // the part of a document, and the problems with it
	values := rows{
		{"client: {burst: 1.5}", "client.burst: expected a whole number, but found another number"},
		{"listenAddress: 8080", "listenAddress: expected a text, but found a number; quotes make it a text"},
		{"tracing: {insecure: maybe}", "tracing.insecure: expected true or false, but found a text"},
		{"tracing: {sampleRatio: all}", "tracing.sampleRatio: expected a number, but found a text"},
		{"timeouts: {abort: 5m1}", `timeouts.abort: expected a duration such as 30s or 5m, but found "5m1"`},
		{`identity: ""`, `identity: expected 1 to 253 printable characters, but found ""`},
		{`identity: "a\nb"`, `identity: expected 1 to 253 printable characters, but found "a\nb"`},
		{"identity: " + long, `identity: expected 1 to 253 printable characters, but found "` + long + `"`},
		{"namespaces: shop", "namespaces: expected a list, but found a text"},
		{
			"namespaces: [shop, Shop, ~, shop]",
			`namespaces[1]: expected the name of a namespace, such as shop, but found "Shop"`,
			`namespaces[2]: expected the name of a namespace, such as shop, but found ""`,
			`namespaces[3]: expected each namespace once, but found "shop" again`,
		},
		{
			"targetSelectors: [{labels: [{key: a, operator: is}]}]",
			`targetSelectors[0].labels[0].operator: expected one of =, ==, !=, in, notin, exists, !, gt, lt, but found "is"`,
		},
		{
			"targetSelectors: [{targets: [{namespace: shop}]}]",
			"targetSelectors[0].targets[0].name: expected the name of a Target, but it is empty",
		},
		{
			"targetServiceAccount: ../other/admin",
			`targetServiceAccount: expected the name of a ServiceAccount, such as deployer, but found "../other/admin"`,
		},
		{"locking: always", `locking: expected auto, on or off, but found "always"`},
		{"keepReferences: always", `keepReferences: expected auto, on or off, but found "always"`},
		{"lockPrefix: Prod_", prefix + `"Prod_"`},
		{"lockPrefix: " + long[:41], prefix + `"` + long[:41] + `"`}, // names of locks end at 253 characters
		{
			"timeouts: {pickup: soon}",
			`timeouts.pickup: expected a duration such as 10m or 1h30m, or "none", but found "soon"`,
		},
		{"timeouts: {progressing: -1s}", `timeouts.progressing: expected a positive duration, but found "-1s"`},
		{"client: {burst: 5}", "client.qps: is missing; set it together with burst, or neither for no limit"},
		{"client: {qps: 5}", "client.burst: is missing; set it together with qps, or neither for no limit"},
		{"client: {qps: 1e300, burst: -1}", "client.qps: " + rate + "1e+300", "client.burst: " + rate + "-1"},
		{"clusterDomain: .local", `clusterDomain: expected a DNS name such as cluster.local, but found ".local"`},
		{
			`listenAddress: "8080"`,
			`listenAddress: expected host and port such as :8080 or 127.0.0.1:8080, but found "8080"`,
		},
		{"pprofAddress: 0.0.0.0:6060", loopback + `but found "0.0.0.0:6060"`},
		{"pprofAddress: :6060", loopback + `but found ":6060"`},
		{`tracing: {endpoint: "https://collector:4317"}`, collector + `but found "https://collector:4317"`},
		{"tracing: {endpoint: ':4317'}", collector + `but found ":4317"`},
		{"tracing: {sampleRatio: 0}", fmt.Sprintf(ratio, "0")},
		{"tracing: {sampleRatio: 1.1}", fmt.Sprintf(ratio, "1.1")},
		{
			`statusPage: {hostNames: [status.example.org, "*.example.org"]}`,
			`statusPage.hostNames[1]: expected a DNS name such as status.example.org, but found "*.example.org"`,
		},
		{
			"statusPage: {listenAddress: localhost}",
			`statusPage.listenAddress: expected host and port such as :9080, but found "localhost"`,
		},
		{"log: {level: loud}", `log.level: expected debug, info, warn or error, but found "loud"`},
		{"log: {format: xml}", `log.format: expected json or text, but found "xml"`},
		{"verification: require", `verification: expected required or off, but found "require"`},
		{"verification: on", `verification: expected required or off, but found "on"`}, // off has no opposite here
		{`pluginFiles: [a/b, "", helm]`, "pluginFiles[0]: " + badFile + `"a/b"`, "pluginFiles[1]: " + badFile + `""`},
		{
			"plugins: {Helm_3: {workers: -1}}", // with all that is wrong in its entry
			"plugins.Helm_3: expected the name that a plugin gives itself, a DNS label such as helm",
			"plugins.Helm_3.workers: expected a number from 0 to 1000, but found -1",
		},
		{
			// Which entry is meant for a file? Also where the name of a plugin is the file.
			"plugins: {a: {file: x}, b: {file: x}, c: {file: d}, d: {}, e: {}, f: {file: e}}",
			`plugins.b.file: expected a file of its own, but "x" is that of plugin "a"`,
			`plugins.d.file: expected a file of its own, but "d" is that of plugin "c"`,
			`plugins.f.file: expected a file of its own, but "e" is that of plugin "e"`,
		},
	}
	plugins := rows{
		// Never with what was found, which may be a password.
		{"config: secret", "config: expected an object with the fields that the plugin documents"},
		{"file: ../helm", "file: " + badFile + `"../helm"`},
		{"file: .helm", "file: " + badFile + `".helm"`},
		{"sha256: " + strings.ToUpper(sum) + "A", badSum + `"` + strings.ToUpper(sum) + `A"`},
		{"sha256: " + sum, badSum + `"` + sum + `"`},
		{"image: 'registry.example.org/Thing'", badImage + `"registry.example.org/Thing"`},
		{"image: 'registry.example.org/thing@sha256:abc'", badImage + `"registry.example.org/thing@sha256:abc"`},
		{ // which may be another one tomorrow
			"image: 'registry.example.org/thing:v1'", "image: expected a digest, or a sha256 beside it, because what a tag " +
				`names may change, but found "registry.example.org/thing:v1"; append @sha256:…`,
		},
		{"image: 'example.org/thing@sha256:" + sum + "a', path: bin/thing", "path: " + badPath + `"bin/thing"`},
		{"path: /thing", "path: has no effect without image; name the one that it is in"},
		{`memory: "67108863"`, badAmount + "67108863"},
		{"memory: 1025Gi", badAmount + "1025Gi"},
		{"memory: 999999999999999Ti", badAmount + "9223372036854775807"},
		{"memory: 512", badMemory + "a number"}, // of what?
		{"memory: 512MB", badMemory + `"512MB"`},
		{"openFiles: 63", badFiles + "63"},
		{"openFiles: 1048577", badFiles + "1048577"},
		{
			"confinement: {mode: always, read: [/, etc, /etc/, /a/../b, /ok, '']}",
			`confinement.mode: expected auto, required or off, but found "always"`,
			"confinement.read[0]: " + badRoot, "confinement.read[1]: " + badPath + `"etc"`,
			"confinement.read[2]: " + badPath + `"/etc/"`, "confinement.read[3]: " + badPath + `"/a/../b"`,
			"confinement.read[5]: " + badPath + `""`,
		},
		{
			"confinement: {write: [//, /, /./a]}", "confinement.write[0]: " + badPath + `"//"`,
			"confinement.write[1]: " + badRoot, "confinement.write[2]: " + badPath + `"/./a"`,
		},
		{
			"confinement: {mode: off, read: [/a], write: [b]}", // the operator believes in a limit that is none
			"confinement.read: " + noEffect, "confinement.write: " + noEffect, "confinement.write[0]: " + badPath + `"b"`,
		},
		{
			"workersPerTarget: -1, defaultTimeout: 169h",
			"workersPerTarget: expected a number from 0 to 1000, but found -1",
			"defaultTimeout: expected a duration from 1s to 7d, but found 169h0m0s",
		},
		{"hostCluster: {}", namespace + `""`, account + `""`},
		{"hostCluster: {serviceAccount: {namespace: a.b, name: A}}", namespace + `"a.b"`, account + `"A"`},
	}
	bounds := rows{ // values outside of each range
		{"workers", "a number from 1 to 1000", "0", "1001"},
		{"maxPluginCrashes", "a number from 1 to 100", "0", "101"},
		{"collectInterval", "a duration from 60s to 24h", "59.999s", "25h0m0s"},
		{"timeouts.abort", "a duration above zero, such as 30s", "0s"},
		{"timeouts.pluginStart", "a duration above zero, such as 30s", "-1s"},
		{"timeouts.shutdown", "a duration above zero, such as 30s", "0s"},
		{"timeouts.pluginSilence", "a duration from 15s to 60m", "14.999s", "1h0m1s"},
		{"timeouts.hook", "a duration from 1s to 5m", "999ms", "5m1s"},
		{"timeouts.lease", "a duration from 3s to 60m", "2.999s", "1h0m1s"},
		{"continuousReconcile.minimumInterval", "a duration from 1s to 24h", "999ms", "24h0m1s"},
		{"continuousReconcile.jitter", "a duration from 0s to 24h", "-1s", "24h0m1s"},
		{"continuousReconcile.defaultInterval", "a duration from 60s to 7d", "59.999s", "168h0m1s", "-1m0s"},
		{"retries.first", "a duration from 1s to 24h", "999ms", "24h0m1s"},
		{"retries.longest", "a duration from 60s to 24h", "59.999s", "24h0m1s"},
	}
	for _, bound := range bounds {
		open, end := strings.ReplaceAll(bound[0], ".", ": {"), strings.Repeat("}", strings.Count(bound[0], "."))
		for _, value := range bound[2:] {
			problem := bound[0] + ": expected " + bound[1] + ", but found " + value
			values = append(values, []string{open + ": " + value + end, problem})
		}
	}
	for _, name := range []string{"", "1A", "A=b", "A B", "Ä", "A\n"} {
		plugins = append(plugins, []string{fmt.Sprintf("environment: [%q]", name), badName + strconv.Quote(name)})
	}
	for _, name := range []string{"PERGOLA_LOG_LEVEL", "PLUGIN_CLIENT_CERT", "LD_PRELOAD", "GOMEMLIMIT", "TMPDIR"} {
		plugins = append(plugins, []string{"environment: [" + name + "]", fmt.Sprintf(reserved, name)})
	}
	for _, row := range plugins {
		values = append(values, []string{"plugins: {helm: {" + row[0] + "}}"})
		for _, problem := range row[1:] {
			values[len(values)-1] = append(values[len(values)-1], "plugins.helm."+problem)
		}
	}
	for _, row := range values {
		if diff := cmp.Diff(row[1:], problems(head+row[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row[0], diff)
		}
	}
}
