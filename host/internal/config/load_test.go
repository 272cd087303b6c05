package config_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

// head is what every document must say.
const head = "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\n"

// The golden file is what an operator relies on who configures nothing. UPDATE_GOLDEN=1 writes it anew.
func TestDefaults(t *testing.T) {
	t.Parallel()
	const golden = "testdata/defaults.golden.yaml"
	got, err := yaml.Marshal(config.Default("the pod or the machine"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("defaults (-want +got):\n%s\nUPDATE_GOLDEN=1 go test makes them the golden ones", diff)
	}
	loaded, err := config.Load(golden, "another")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.Default("the pod or the machine"), loaded); diff != "" {
		t.Errorf("defaults, written and read (-want +got):\n%s", diff)
	}
}

// everything has each field, written as it would be printed, with another value than its default.
const everything = head + `
identity: me
namespaces: [shop, tools]
targetSelectors:
- targets: [{name: a}, {name: b, namespace: c}]
  annotations: [{key: d, operator: "=", values: ["two words"]}]
  labels: [{key: e, operator: exists}]
workers: 7
locking: "off"
targetServiceAccount: deployer
lockPrefix: pergola-
keepReferences: "on"
timeouts: {pickup: none, progressing: 90s, abort: 1m0s, pluginStart: 2m0s, pluginSilence: 15s,
  hook: 5m0s, shutdown: 1h30m0s, lease: 1h0m0s}
continuousReconcile: {minimumInterval: 24h0m0s, jitter: 5m0s, defaultInterval: 168h0m0s}
retries: {first: 1s, longest: 24h0m0s}
maxPluginCrashes: 100
collectInterval: 24h0m0s
client: {qps: 12.5, burst: 30}
clusterDomain: c.example.org
listenAddress: 127.0.0.1:0
pprofAddress: "[::1]:6060"
tracing: {endpoint: "collector.example.org:4317", insecure: true, sampleRatio: 0.25}
statusPage: {listenAddress: ":9080", hostNames: [status.example.org]}
log: {level: debug, format: text}
verification: required
pluginFiles: [helm-deployer, manifest]
pluginCache: /var/cache/pergola
plugins:
  helm:
    file: helm-deployer
    image: registry.example.org/team/helm:v1
    path: /bin/helm
    sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    args: [--verbose, "", --verbose]
    environment: [KUBECONFIG, _a1]
    workers: 3
    workersPerTarget: 2
    defaultTimeout: 20m0s
    memory: 1536Mi
    openFiles: 64
    confinement: {mode: required, read: [/etc/..helm, /.c], write: [/var/cache/helm, /srv]}
    hostCluster: {serviceAccount: {namespace: pods, name: helm.runner}}
    config: {a: 1}
`

// TestParse: what is read is what is written.
func TestParse(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("host.yaml", []byte(everything), "host")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(everything), &want), yaml.Unmarshal(printed, &got)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("each field (-want +got):\n%s", diff)
	}

	longest := strings.Repeat("9", 39) + "-"
	for _, tc := range []struct {
		reason, text string
		want         func(*config.HostConfiguration) // changes the defaults
	}{
		{"nothing else is required", head, func(*config.HostConfiguration) {}},
		{
			"null leaves the default",
			head + "identity:\nworkers: null\ntimeouts: ~\nclient: {qps: null}\nplugins: {helm: }\ntargetSelectors:\n",
			func(c *config.HostConfiguration) { c.Plugins = map[string]config.Plugin{"helm": {}} },
		},
		{
			"JSON that YAML does not know",
			`{"apiVersion": "host.pergola.dev\/v1alpha1", "kind": "HostConfiguration", ` +
				`"identity": "\ud83c\udf3f", "workers": 7}`,
			func(c *config.HostConfiguration) { c.Identity, c.Workers = "🌿", 7 },
		},
		{
			"bounds are allowed, and defaults fill what an object leaves out",
			head + "lockPrefix: " + longest + "\ntimeouts: {lease: 3s, hook: 1s}\ncollectInterval: 1m\n" +
				"continuousReconcile: {minimumInterval: 1s, jitter: 24h}\npprofAddress: localhost:6060\n" +
				"plugins: {least: {memory: 64Mi, openFiles: 64}, most: {memory: 1Ti, openFiles: 1048576}, " +
				"none: {memory: \"0\"}, decimal: {file: a.b, memory: 1.5G}}",
			func(c *config.HostConfiguration) {
				c.LockPrefix, c.Timeouts.Lease.Duration, c.Timeouts.Hook.Duration = longest, 3*time.Second, time.Second
				c.CollectInterval.Duration, c.PprofAddress = time.Minute, "localhost:6060"
				c.ContinuousReconcile.MinimumInterval.Duration = time.Second
				c.ContinuousReconcile.Jitter.Duration = 24 * time.Hour
				c.Plugins = map[string]config.Plugin{
					"least": {Memory: 64 << 20, OpenFiles: 64}, "most": {Memory: 1 << 40, OpenFiles: 1 << 20}, "none": {},
					"decimal": {File: "a.b", Memory: 1_500_000_000},
				}
			},
		},
	} {
		want := config.Default("host")
		tc.want(want)
		got, err := config.Parse("host.yaml", []byte(tc.text), "host")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tc.reason, err, diff)
		}
	}
}

// People write on and off without quotes, which YAML takes for true and false, and so does what renders a file.
func TestSwitches(t *testing.T) {
	t.Parallel()
	for written, want := range map[string][]string{
		"": {"auto", "off", "auto"}, "auto": {"auto", "", "auto"}, "required": {"", "required", "required"},
		"on": {"on", "", ""}, "'on'": {"on", "", ""}, "true": {"on", "", ""},
		"off": {"off", "off", "off"}, "'off'": {"off", "off", "off"}, "FALSE": {"off", "off", "off"},
	} {
		for i, field := range []string{"locking: %s", "verification: %s", "plugins: {p: {confinement: {mode: %s}}}"} {
			c, err := config.Parse("host.yaml", []byte(head+strings.Replace(field, "%s", written, 1)), "host")
			if want[i] == "" {
				if err == nil {
					t.Errorf("%s, %s: expected an error", field, written)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", field, written, err)
				continue
			}
			mode := c.Plugins["p"].Confinement.EffectiveMode()
			if got := []string{string(c.Locking), string(c.Verification), string(mode)}[i]; got != want[i] {
				t.Errorf("%s, %s: expected %s, but found %s", field, written, want[i], got)
			}
		}
	}
}

// What a plugin gets is what the operator wrote.
func TestPluginConfig(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, text, want string }{
		{"no document", head + "plugins: {p: {workers: 1}}", ""},
		{"null is none", head + "plugins: {p: {config: }}", ""},
		{"an empty document is one", head + "plugins: {p: {config: {}}}", `{}`},
		{
			"fields, whatever they are called",
			head + "plugins: {p: {config: {B: 9223372036854775807, a b: ['7', 1.5, ~, true]}}}",
			`{"B":9223372036854775807,"a b":["7",1.5,null,true]}`,
		},
		{
			"JSON as it is",
			`{"apiVersion":"host.pergola.dev/v1alpha1","kind":"HostConfiguration",` +
				`"plugins":{"p":{"config":{"b": 1.10, "a": "\u2028"}}}}`,
			`{"b": 1.10, "a": "\u2028"}`,
		},
	} {
		got, err := config.Parse("host.yaml", []byte(tc.text), "host")
		if err != nil {
			t.Fatalf("%s: %v", tc.reason, err)
		}
		if diff := cmp.Diff(tc.want, string(got.Plugins["p"].Config)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "host.yaml")
	if err := os.WriteFile(file, []byte(head+"workers: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(file, "host")
	if err == nil || !strings.HasPrefix(err.Error(), file+": workers: ") {
		t.Errorf("expected one problem that names file and field, but found %v", err)
	}
	_, err = config.Load(filepath.Join(dir, "nowhere"), "host")
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("expected that the file is missing, but found %v", err)
	}
	if _, err := config.Load(dir, "host"); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("expected that a directory is no file, but found %v", err)
	}
}

// The example of the documentation is a configuration that shows each field, and the reference has a row for each and
// no other.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/host-configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	example, _, ended := strings.Cut(rest, "```\n")
	if !found || !ended || strings.Count(string(page), "kind: HostConfiguration") != 1 {
		t.Fatal("expected the first block of YAML, and no other, to be a HostConfiguration")
	}
	if _, err := config.Parse("docs/host-configuration.md", []byte(example), "host"); err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(example), &fields); err != nil {
		t.Fatal(err)
	}
	_, reference, _ := strings.Cut(string(page), "\n## Fields\n")
	reference, _, _ = strings.Cut(reference, "\n## ")
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(reference, -1) {
		rows["."+row[1]] = true
	}

	want := typePaths(reflect.TypeFor[config.HostConfiguration](), "")
	shown := map[string]bool{}
	addPaths(shown, fields, "")
	for path := range want {
		if !shown[path] {
			t.Errorf("the example does not show %s", path)
		}
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows of the reference (-want +got):\n%s", diff)
	}
}

// typePaths are those of all fields that the host itself reads, with <name> for the name of a plugin. A list is one
// field.
func typePaths(of reflect.Type, path string) map[string]bool {
	all := map[string]bool{}
	switch {
	case of == reflect.TypeFor[config.Duration]():
		all[path] = true
	case of.Kind() == reflect.Pointer:
		return typePaths(of.Elem(), path)
	case of.Kind() == reflect.Struct:
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			maps.Copy(all, typePaths(field.Type, path+"."+name))
		}
	case of.Kind() == reflect.Map:
		all[path] = true
		maps.Copy(all, typePaths(of.Elem(), path+".<name>"))
	default:
		all[path] = true
	}
	return all
}

// addPaths adds the paths of all values in a document, with <name> for the name of a plugin.
func addPaths(paths map[string]bool, value any, path string) {
	paths[path] = true
	fields, _ := value.(map[string]any)
	for name, inner := range fields {
		if path == ".plugins" {
			name = "<name>"
		}
		addPaths(paths, inner, path+"."+name)
	}
}
