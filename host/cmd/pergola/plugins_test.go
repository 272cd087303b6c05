package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// expectGolden compares a text with a file in testdata. UPDATE_GOLDEN=1 writes it anew.
func expectGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func somePlugins() *statuspage.PluginList {
	return &statuspage.PluginList{
		Plugins: []statuspage.Plugin{
			{
				File: "audit", Name: "audit", Version: "v1", State: "Running", Capabilities: []string{"hooks"},
				HookTypes: []string{"BeforeReconcile", "End"}, HookedTypes: []string{"example.org/helm", "example.org/other"},
			},
			{
				File: "helm-deployer", Name: "helm", Version: "v1.2.3", Types: []string{"example.org/chart", "example.org/helm"},
				Capabilities: []string{"abort", "configure"}, SHA256: strings.Repeat("0123456789abcdef", 4), State: "Running",
				Confinement: "landlock (ABI 7): files, devices",
			},
			{
				File: "mixed", Name: "mixed", Version: "v1", Types: []string{"example.org/mixed"}, State: "Running",
				Capabilities: []string{"hooks"}, HookTypes: []string{"End"},
				HookedTypes: []string{"example.org/helm", "example.org/mixed"},
			},
			{File: "new", State: "Starting"},
			{File: "policy", State: "Missing", Problem: "the file is not in the plugin directory"},
			{
				File: "rogue", State: "CrashLoop", Name: "rogue", Version: "\x1b[31mred\tand\nlong\xff",
				Types: []string{"example.org/rogue"}, Problem: "its process ended:\n\x1b]0;title\asignal: killed",
			},
			{
				File: "unix:///tmp/hello/plugin.sock", Name: "hello", Version: "v1", Types: []string{"example.org/hello"},
				State: "Running", Confinement: "none: it was not started by the host",
			},
		},
	}
}

func TestListText(t *testing.T) {
	t.Parallel()
	expectGolden(t, "list.golden.txt", listText(somePlugins(), false))
	expectGolden(t, "list-wide.golden.txt", listText(somePlugins(), true))
}

func TestPluginsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	item := writeFile(t, "item.yaml", itemHead+"metadata: {name: a}\nspec: {type: t, target: {name: cluster}}\n")
	config := writeFile(t, "host.yaml", configHead+"typo: 1")
	expectErrors(t, exitNo, []errorCase{
		{"no such directory", "plugins list --plugin-dir /no/where", []string{"read plugin directory", "/no/where"}},
		{"a file with errors", "plugins list --plugin-dir / --config " + config, []string{"host.yaml: typo"}},
		{"nothing to verify", "plugins verify " + t.TempDir(), []string{"there are no plugins in"}},
		{"which item?", "plugins run mock", []string{"--item is missing"}},
		{"the operations", "plugins run mock --operation dance", []string{"--operation", "force-reconcile", `"dance"`}},
		{"the item has a target", "plugins run mock --item " + item, []string{"spec.target", `"cluster"`, "--target"}},
	}...)
}

// What is pasted into a HostConfiguration is read as what is meant.
func TestVerificationOf(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	list := &statuspage.PluginList{Plugins: []statuspage.Plugin{
		{File: "helm", Name: "helm", SHA256: sum}, {File: "deployer-v2", Name: "deployer", SHA256: sum},
		{File: "refused", SHA256: sum}, {File: "unix:///attached", Name: "attached"},
	}}
	var out strings.Builder
	if err := printYAML(&out, verificationOf(list)); err != nil {
		t.Fatal(err)
	}
	got, err := config.Parse("host.yaml", []byte(configHead+out.String()), "host")
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default("host")
	want.Verification = config.VerificationRequired
	want.Plugins = map[string]config.Plugin{
		"helm": {SHA256: sum}, "deployer": {File: "deployer-v2", SHA256: sum}, "refused": {SHA256: sum},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestVerdictsText(t *testing.T) {
	t.Parallel()
	rules := []finding{
		{Text: "It is good.", Finding: conformance.Finding{Rule: "good-rule", Verdict: conformance.Passed}},
		{Text: "It is better.", Finding: conformance.Finding{
			Rule: "bad-rule", Verdict: conformance.Broken, Messages: []string{"Reconcile: it\nis not", "\x1b[31m"},
		}},
		{Text: "It is.", Finding: conformance.Finding{
			Rule: "other-rule", Verdict: conformance.NotApplicable, Messages: []string{"no"},
		}},
	}
	verdicts := []verdict{
		{File: "good", Rules: rules[:1]},
		{File: "bad", Rules: rules},
		{File: "refused", Problem: "may be written by others"},
		{File: "clash", Problem: "does not run", Rules: rules[:1]},
	}
	expectGolden(t, "verify.golden.txt", verdictsText(verdicts))
	for i, want := range []bool{false, true, true, true} {
		if got := verdicts[i].broken(); got != want {
			t.Errorf("%s: expected broken to be %t", verdicts[i].File, want)
		}
	}
}

func TestPluginOptions(t *testing.T) {
	t.Parallel()
	settings := config.Default("host")
	got, timeouts := pluginOptions(settings, nil, 0), settings.Timeouts
	if got.RequireSums || got.DefaultProfile.Confinement != sandbox.Auto || len(got.Profiles) > 0 ||
		got.StartTimeout != timeouts.PluginStart.Duration || got.StopGrace != timeouts.Shutdown.Duration ||
		got.Silence != timeouts.PluginSilence.Duration {
		t.Errorf("the options are not those of the settings: %+v", got)
	}
	settings.Verification, settings.PluginCache = config.VerificationRequired, "/cache"
	settings.Plugins = map[string]config.Plugin{
		"calls":       {Workers: 5, HostCluster: &config.HostCluster{}, Config: []byte("{}"), Args: []string{}},
		"file":        {File: "deployer"},
		"sum":         {SHA256: "ab"},
		"image":       {Image: "example.org/image:v1", Path: "/a"},
		"args":        {Args: []string{"a"}},
		"environment": {Environment: []string{"A"}},
		"memory":      {Memory: 64 << 20},
		"files":       {OpenFiles: 64},
		"auto":        {Confinement: config.Confinement{Mode: config.ConfinementAuto}},
		"off":         {Confinement: config.Confinement{Mode: config.ConfinementOff}},
		"read":        {Confinement: config.Confinement{Read: []string{"/r"}}},
		"write":       {Confinement: config.Confinement{Mode: config.ConfinementRequired, Write: []string{"/w"}}},
	}
	got = pluginOptions(settings, nil, 0)
	want := map[string]plugin.Profile{ // an entry about calls leaves the file alone
		"deployer":    {Plugin: "file", Confinement: sandbox.Auto},
		"sum":         {Plugin: "sum", SHA256: "ab", Confinement: sandbox.Auto},
		"image":       {Plugin: "image", Image: "example.org/image:v1", Path: "/a", Confinement: sandbox.Auto},
		"args":        {Plugin: "args", Args: []string{"a"}, Confinement: sandbox.Auto},
		"environment": {Plugin: "environment", Environment: []string{"A"}, Confinement: sandbox.Auto},
		"memory":      {Plugin: "memory", Memory: 64 << 20, Confinement: sandbox.Auto},
		"files":       {Plugin: "files", OpenFiles: 64, Confinement: sandbox.Auto},
		"auto":        {Plugin: "auto", Confinement: sandbox.Auto},
		"off":         {Plugin: "off", Confinement: sandbox.Off},
		"read":        {Plugin: "read", Read: []string{"/r"}, Confinement: sandbox.Auto},
		"write":       {Plugin: "write", Write: []string{"/w"}, Confinement: sandbox.Required},
	}
	if diff := cmp.Diff(want, got.Profiles); diff != "" || !got.RequireSums || got.CacheDir != "/cache" ||
		string(got.Configs["calls"]) != "{}" {
		t.Errorf("found %+v, profiles (-want +got):\n%s", got, diff)
	}
}
