package config_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

// document is one with a field, written in JSON so that the case needs no quoting of its own.
func document(t *testing.T, field string, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return head + field + ": " + string(text)
}

func TestPluginErrors(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	plugin := func(fields object) string { return document(t, "plugins", object{"helm": fields}) }
	const (
		badFile   = "expected the name of a file in the plugin directory, without / and without a dot at the beginning, but found "
		badSum    = "expected the 64 lower-case hexadecimal digits of a SHA-256, but found "
		badName   = "expected the name of an environment variable, letters, digits and _, but found "
		taken     = "expected a variable that plugins may be given, but found "
		reserved  = "; PERGOLA_*, PLUGIN_*, LD_*, GOMEMLIMIT and TMPDIR are reserved"
		badMemory = "plugins.helm.memory: expected an amount of memory such as 512Mi, but found "
		badAmount = "plugins.helm.memory: expected an amount from 64Mi to 1Ti, or 0 for no limit, but found "
		badFiles  = "plugins.helm.openFiles: expected a number from 64 to 1048576, or 0 for as many as the host, but found "
		badPath   = "expected an absolute path without . and .., and without needless slashes, but found "
		noEffect  = "has no effect with mode off; leave it out, or choose another mode"
		badRoot   = `expected a part of the file system, but found "/", which leaves nothing to confine; use mode off for that`
	)
	cases := map[string]struct {
		reason string
		text   string
		want   []string
	}{
		"documents": {
			reason: "never with what was found, which may be a password", text: plugin(object{"config": "secret"}),
			want: []string{"plugins.helm.config: expected an object with the fields that the plugin documents"},
		},
		"plugin files": {
			reason: "a file that can be in the plugin directory, once", text: document(t, "pluginFiles", []string{"a/b", "", "helm"}),
			want: []string{
				"pluginFiles[0]: " + badFile + `"a/b"`, "pluginFiles[1]: " + badFile + `""`,
			},
		},
		"another verification": {
			reason: "with what there is", text: head + "verification: require",
			want: []string{`verification: expected required or off, but found "require"`},
		},
		"verification on": {
			reason: "off has no opposite here", text: head + "verification: on",
			want: []string{`verification: expected required or off, but found "on"`},
		},
		"sums": {
			reason: "one way to write them, so that equal sums are equal texts",
			text: document(t, "plugins", object{
				"a": object{"sha256": strings.Repeat("A", 64)}, "b": object{"sha256": strings.Repeat("a", 63)},
			}),
			want: []string{
				"plugins.a.sha256: " + badSum + `"` + strings.Repeat("A", 64) + `"`,
				"plugins.b.sha256: " + badSum + `"` + strings.Repeat("a", 63) + `"`,
			},
		},
		"file": {
			reason: "it lies in the plugin directory itself",
			text:   document(t, "plugins", object{"a": object{"file": "../helm"}, "b": object{"file": ".helm"}}),
			want:   []string{"plugins.a.file: " + badFile + `"../helm"`, "plugins.b.file: " + badFile + `".helm"`},
		},
		"one file": {
			reason: "which entry is meant for it? Also where the name of a plugin is the file",
			text:   document(t, "plugins", object{"a": object{"file": "x"}, "b": object{"file": "x"}, "c": object{"file": "d"}, "d": object{}, "e": object{}, "f": object{"file": "e"}}),
			want: []string{
				`plugins.b.file: expected a file of its own, but "x" is that of plugin "a"`, `plugins.d.file: expected a file of its own, but "d" is that of plugin "c"`,
				`plugins.f.file: expected a file of its own, but "e" is that of plugin "e"`,
			},
		},
		"environment": {
			reason: "names alone, and none that the host sets or that makes another program of the verified one",
			text: plugin(object{"environment": []string{
				"", "1A", "A=b", "A B", "Ä", "PERGOLA_LOG_LEVEL", "PLUGIN_CLIENT_CERT", "LD_PRELOAD", "GOMEMLIMIT", "TMPDIR", "TOKEN", "A\n",
			}}),
			want: []string{
				"plugins.helm.environment[0]: " + badName + `""`, "plugins.helm.environment[1]: " + badName + `"1A"`, "plugins.helm.environment[2]: " + badName + `"A=b"`,
				"plugins.helm.environment[3]: " + badName + `"A B"`, "plugins.helm.environment[4]: " + badName + `"Ä"`,
				"plugins.helm.environment[5]: " + taken + `"PERGOLA_LOG_LEVEL"` + reserved, "plugins.helm.environment[6]: " + taken + `"PLUGIN_CLIENT_CERT"` + reserved,
				"plugins.helm.environment[7]: " + taken + `"LD_PRELOAD"` + reserved, "plugins.helm.environment[8]: " + taken + `"GOMEMLIMIT"` + reserved,
				"plugins.helm.environment[9]: " + taken + `"TMPDIR"` + reserved, "plugins.helm.environment[11]: " + badName + `"A\n"`,
			},
		},
		"memory below": {
			reason: "no plugin runs in it", text: plugin(object{"memory": "67108863"}),
			want: []string{badAmount + "67108863"},
		},
		"memory above": {
			reason: "no machine has it", text: plugin(object{"memory": "1025Gi"}),
			want: []string{badAmount + "1025Gi"},
		},
		"memory, overflow": {
			reason: "it stays large", text: plugin(object{"memory": "999999999999999Ti"}),
			want: []string{badAmount + "9223372036854775807"},
		},
		"memory, a number": {
			reason: "512 of what?", text: plugin(object{"memory": 512}),
			want: []string{badMemory + "a number"},
		},
		"memory, unit": {
			reason: "with the unit of Kubernetes", text: plugin(object{"memory": "512MB"}),
			want: []string{badMemory + `"512MB"`},
		},
		"open files below": {
			reason: "no plugin runs with them", text: plugin(object{"openFiles": 63}),
			want: []string{badFiles + "63"},
		},
		"open files above": {
			reason: "the kernel has no more", text: plugin(object{"openFiles": 1<<20 + 1}),
			want: []string{badFiles + "1048577"},
		},
		"confinement": {
			reason: "paths that mean one place, and not all of them",
			text: plugin(object{"confinement": object{
				"mode": "always", "read": []string{"/", "etc", "/etc/", "/a/../b", "/ok", ""}, "write": []string{"//", "/", "/./a"},
			}}),
			want: []string{
				`plugins.helm.confinement.mode: expected auto, required or off, but found "always"`,
				"plugins.helm.confinement.read[0]: " + badRoot, "plugins.helm.confinement.read[1]: " + badPath + `"etc"`, "plugins.helm.confinement.read[2]: " + badPath + `"/etc/"`,
				"plugins.helm.confinement.read[3]: " + badPath + `"/a/../b"`, "plugins.helm.confinement.read[5]: " + badPath + `""`,
				"plugins.helm.confinement.write[0]: " + badPath + `"//"`, "plugins.helm.confinement.write[1]: " + badRoot, "plugins.helm.confinement.write[2]: " + badPath + `"/./a"`,
			},
		},
		"paths without confinement": {
			reason: "the operator believes in a limit that is none",
			text:   plugin(object{"confinement": object{"mode": "off", "read": []string{"/a"}, "write": []string{"b"}}}),
			want:   []string{"plugins.helm.confinement.read: " + noEffect, "plugins.helm.confinement.write: " + noEffect, "plugins.helm.confinement.write[0]: " + badPath + `"b"`},
		},
		"no account": {
			reason: "a grant says to whom", text: plugin(object{"hostCluster": object{}}),
			want: []string{`plugins.helm.hostCluster.serviceAccount.namespace: expected the name of a namespace, but found ""`, `plugins.helm.hostCluster.serviceAccount.name: expected the name of a ServiceAccount, but found ""`},
		},
		"account": {
			reason: "there can be none of this name", text: plugin(object{"hostCluster": object{"serviceAccount": object{"namespace": "a.b", "name": "A"}}}),
			want: []string{
				`plugins.helm.hostCluster.serviceAccount.namespace: expected the name of a namespace, but found "a.b"`,
				`plugins.helm.hostCluster.serviceAccount.name: expected the name of a ServiceAccount, but found "A"`,
			},
		},
		"names of plugins": {
			reason: "a name that none can have, with all that is wrong in its entry", text: document(t, "plugins", object{"Helm": object{"file": "a/b", "openFiles": 1}}),
			want: []string{
				"plugins.Helm: expected the name that a plugin gives itself, a DNS label such as helm", "plugins.Helm.file: " + badFile + `"a/b"`,
				"plugins.Helm.openFiles: expected a number from 64 to 1048576, or 0 for as many as the host, but found 1",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectProblems(t, tc.reason, tc.text, tc.want)
		})
	}
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		text   string
		want   config.Plugin
	}{
		"zero": {reason: "zero is no limit", text: `{memory: "0", openFiles: 0}`},
		"least": {
			reason: "bounds are allowed", text: "{memory: 64Mi, openFiles: 64}",
			want: config.Plugin{Memory: 64 << 20, OpenFiles: 64},
		},
		"most": {
			reason: "bounds are allowed", text: "{memory: 1Ti, openFiles: 1048576}",
			want: config.Plugin{Memory: 1 << 40, OpenFiles: 1 << 20},
		},
		"decimal units": {
			reason: "as Kubernetes has them", text: "{memory: 1.5G}",
			want: config.Plugin{Memory: 1_500_000_000},
		},
		"one argument twice": {
			reason: "arguments repeat", text: "{args: [-v, -v]}",
			want: config.Plugin{Args: []string{"-v", "-v"}},
		},
		"dots in names": {
			reason: "only those that are steps are none", text: "{file: a.b, confinement: {read: [/a/..b, /.c]}}",
			want: config.Plugin{File: "a.b", Confinement: config.Confinement{Read: []string{"/a/..b", "/.c"}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("host.yaml", []byte(head+"plugins: {helm: "+tc.text+"}"), "host")
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, c.Plugins["helm"]); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// An amount that is written is the amount that is read again.
func TestBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		shift := rapid.IntRange(0, 40).Draw(t, "shift")
		want := config.Bytes(rapid.Int64Range(0, 1<<40>>shift).Draw(t, "units") << shift)
		var got config.Bytes
		if err := got.UnmarshalText([]byte(want.String())); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("expected %d, but %s is read as %d", want, want, got)
		}
	})
}
