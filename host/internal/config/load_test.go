package config_test

import (
	"encoding/json"
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
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// head is what every document must say.
const head = "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\n"

// with returns the defaults with modifications.
func with(modify func(*config.HostConfiguration)) *config.HostConfiguration {
	c := config.Default("host")
	modify(c)
	return c
}

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

func TestParse(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		text   string
		want   *config.HostConfiguration
	}{
		"defaults": {reason: "nothing else is required", text: head, want: config.Default("host")},
		"nulls": {
			reason: "null leaves the default",
			text:   head + "identity:\nworkers: null\ntimeouts: ~\nclient: {qps: null}\nplugins: {helm: }\ntargetSelectors:\n",
			want:   with(func(c *config.HostConfiguration) { c.Plugins = map[string]config.Plugin{"helm": {}} }),
		},
		"everything": {
			reason: "each field",
			text: head + `
identity: me
targetSelectors:
- targets: [{name: a}, {name: b, namespace: c}]
  annotations: [{key: d, operator: "=", values: ["two words"]}]
  labels: [{key: e, operator: exists}]
workers: 7
locking: off
targetServiceAccount: deployer
lockPrefix: pergola-
timeouts: {pickup: none, progressing: 90s, abort: 1m, pluginStart: 2m, pluginStop: 3m, pluginSilence: 15s, hook: 5m, shutdown: 1h30m, lease: 1h}
continuousReconcile: {minimumInterval: 24h, jitter: 5m}
maxPluginCrashes: 100
collectInterval: 24h
client: {qps: 12.5, burst: 30}
clusterDomain: c.example.org
listenAddress: 127.0.0.1:0
pprofAddress: "[::1]:6060"
tracing: {endpoint: collector.example.org:4317, insecure: true, sampleRatio: 0.25}
statusPage: {listenAddress: ":9080", hostNames: [status.example.org]}
log: {level: debug, format: text}
verification: required
pluginFiles: [helm-deployer, manifest]
plugins:
  helm:
    file: helm-deployer
    sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
    args: [--verbose, ""]
    environment: [KUBECONFIG, _a1]
    workers: 3
    memory: 1.5Gi
    openFiles: 64
    confinement: {mode: required, read: [/etc/helm], write: [/var/cache/helm, /srv]}
    hostCluster: {serviceAccount: {namespace: pods, name: helm.runner}}
    config: {a: 1}
`,
			want: &config.HostConfiguration{
				APIVersion: config.APIVersion, Kind: config.Kind, Identity: "me", TargetServiceAccount: "deployer", Workers: 7, Locking: config.LockingOff, LockPrefix: "pergola-", ListenAddress: "127.0.0.1:0",
				StatusPage:   config.StatusPage{ListenAddress: ":9080", HostNames: []string{"status.example.org"}},
				PprofAddress: "[::1]:6060", Tracing: config.Tracing{Endpoint: "collector.example.org:4317", Insecure: true, SampleRatio: 0.25},
				TargetSelectors: []v1alpha1.TargetSelector{{
					Targets:     []v1alpha1.ObjectReference{{Name: "a"}, {Name: "b", Namespace: "c"}},
					Annotations: []v1alpha1.Requirement{{Key: "d", Operator: "=", Values: []string{"two words"}}},
					Labels:      []v1alpha1.Requirement{{Key: "e", Operator: "exists"}},
				}},
				Timeouts: config.Timeouts{
					Pickup: "none", Progressing: "90s", Abort: config.Duration{Duration: time.Minute},
					PluginStart: config.Duration{Duration: 2 * time.Minute}, PluginStop: config.Duration{Duration: 3 * time.Minute},
					PluginSilence: config.Duration{Duration: 15 * time.Second}, Hook: config.Duration{Duration: 5 * time.Minute},
					Shutdown: config.Duration{Duration: 90 * time.Minute}, Lease: config.Duration{Duration: time.Hour},
				},
				Client: config.Client{QPS: 12.5, Burst: 30}, Log: config.Log{Level: "debug", Format: "text"},
				MaxPluginCrashes: 100, CollectInterval: config.Duration{Duration: 24 * time.Hour}, ClusterDomain: "c.example.org",
				ContinuousReconcile: config.ContinuousReconcile{
					MinimumInterval: config.Duration{Duration: 24 * time.Hour}, Jitter: config.Duration{Duration: 5 * time.Minute},
				},
				Verification: config.VerificationRequired,
				PluginFiles:  []string{"helm-deployer", "manifest"},
				Plugins: map[string]config.Plugin{"helm": {
					File: "helm-deployer", SHA256: strings.Repeat("0123456789abcdef", 4), Args: []string{"--verbose", ""}, Environment: []string{"KUBECONFIG", "_a1"}, Workers: 3, Memory: 1536 << 20, OpenFiles: 64,
					Confinement: config.Confinement{Mode: config.ConfinementRequired, Read: []string{"/etc/helm"}, Write: []string{"/var/cache/helm", "/srv"}},
					HostCluster: &config.HostCluster{ServiceAccount: config.ServiceAccount{Namespace: "pods", Name: "helm.runner"}},
					Config:      json.RawMessage(`{"a":1}`),
				}},
			},
		},
		"JSON": {
			reason: "JSON that YAML does not know",
			text:   `{"apiVersion": "host.pergola.dev\/v1alpha1", "kind": "HostConfiguration", "identity": "\ud83c\udf3f", "workers": 7}`,
			want:   with(func(c *config.HostConfiguration) { c.Identity, c.Workers = "🌿", 7 }),
		},
		"shortest lease and longest prefix": {
			reason: "bounds are allowed", text: head + "lockPrefix: " + strings.Repeat("9", 39) + "-\ntimeouts: {lease: 3s}",
			want: with(func(c *config.HostConfiguration) {
				c.LockPrefix, c.Timeouts.Lease.Duration = strings.Repeat("9", 39)+"-", 3*time.Second
			}),
		},
		"shortest hook and intervals": {
			reason: "bounds are allowed", text: head + "timeouts: {hook: 1s}\ncontinuousReconcile: {minimumInterval: 1s, jitter: 24h}\ncollectInterval: 1m",
			want: with(func(c *config.HostConfiguration) {
				c.Timeouts.Hook.Duration, c.ContinuousReconcile.MinimumInterval.Duration = time.Second, time.Second
				c.ContinuousReconcile.Jitter.Duration, c.CollectInterval.Duration = 24*time.Hour, time.Minute
			}),
		},
		"a name of this machine": {
			reason: "which is no other one", text: head + "pprofAddress: localhost:6060\ntracing: {sampleRatio: 1}",
			want: with(func(c *config.HostConfiguration) { c.PprofAddress = "localhost:6060" }),
		},
		"no jitter": {
			reason: "nothing is no jitter", text: head + "continuousReconcile: {jitter: 0s}", want: config.Default("host"),
		},
		"part of an object": {
			reason: "defaults fill what an object leaves out", text: head + "timeouts: {shutdown: 1m}\nlog: {level: warn}\n",
			want: with(func(c *config.HostConfiguration) {
				c.Timeouts.Shutdown.Duration, c.Log.Level = time.Minute, "warn"
			}),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Parse("host.yaml", []byte(tc.text), "host")
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// People write on and off without quotes, which YAML takes for true and false, and so does what renders a file.
func TestSwitches(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		locking      config.Locking
		verification config.Verification
		confinement  config.ConfinementMode
	}{
		"": {config.LockingAuto, config.VerificationOff, config.ConfinementAuto},
		"locking:\nverification:\nplugins: {p: {confinement: {mode: }}}":                       {config.LockingAuto, config.VerificationOff, config.ConfinementAuto},
		"locking: auto\nverification: required\nplugins: {p: {confinement: {mode: required}}}": {config.LockingAuto, config.VerificationRequired, config.ConfinementRequired},
		"locking: off\nverification: off\nplugins: {p: {confinement: {mode: off}}}":            {config.LockingOff, config.VerificationOff, config.ConfinementOff},
		"locking: 'off'\nverification: 'off'\nplugins: {p: {confinement: {mode: \"off\"}}}":    {config.LockingOff, config.VerificationOff, config.ConfinementOff},
		"locking: false\nverification: false\nplugins: {p: {confinement: {mode: FALSE}}}":      {config.LockingOff, config.VerificationOff, config.ConfinementOff},
		"locking: on":   {config.LockingOn, config.VerificationOff, config.ConfinementAuto},
		"locking: 'on'": {config.LockingOn, config.VerificationOff, config.ConfinementAuto},
		"locking: true": {config.LockingOn, config.VerificationOff, config.ConfinementAuto},
	} {
		c, err := config.Parse("host.yaml", []byte(head+text), "host")
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if c.Locking != want.locking || c.Verification != want.verification || c.Plugins["p"].Confinement.EffectiveMode() != want.confinement {
			t.Errorf("%q: expected %v, but found %+v", text, want, c)
		}
	}
}

// What a plugin gets is what the operator wrote.
func TestPluginConfig(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		text   string
		want   string
	}{
		"none":   {reason: "no document", text: head + "plugins: {p: {workers: 1}}"},
		"null":   {reason: "null is none", text: head + "plugins: {p: {config: }}"},
		"empty":  {reason: "an empty document is one", text: head + "plugins: {p: {config: {}}}", want: `{}`},
		"fields": {reason: "whatever they are called", text: head + "plugins: {p: {config: {B: 9223372036854775807, a b: ['7', 1.5, ~, true]}}}", want: `{"B":9223372036854775807,"a b":["7",1.5,null,true]}`},
		"JSON":   {reason: "as it is", text: `{"apiVersion":"host.pergola.dev/v1alpha1","kind":"HostConfiguration","plugins":{"p":{"config":{"b": 1.10, "a": "\u2028"}}}}`, want: `{"b": 1.10, "a": "\u2028"}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := config.Parse("host.yaml", []byte(tc.text), "host")
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, string(got.Plugins["p"].Config)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
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
	if _, err := config.Load(filepath.Join(dir, "nowhere"), "host"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("expected that the file is missing, but found %v", err)
	}
	if _, err := config.Load(dir, "host"); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("expected that a directory is no file, but found %v", err)
	}
}

// The example of the documentation is a configuration that shows each field, and the reference has a row for each and no other.
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
	for path := range want {
		shown[path] = shows(fields, strings.Split(path, ".")[1:])
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("fields that the example shows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows of the reference (-want +got):\n%s", diff)
	}
}

// typePaths are those of all fields that the host itself reads, with <name> for the name of a plugin. A list is one field.
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

// shows tells whether an object has a value at the path.
func shows(object map[string]any, path []string) bool {
	for name, value := range object {
		if path[0] != name && path[0] != "<name>" {
			continue
		}
		inner, isObject := value.(map[string]any)
		if len(path) == 1 || isObject && shows(inner, path[1:]) {
			return true
		}
	}
	return false
}
