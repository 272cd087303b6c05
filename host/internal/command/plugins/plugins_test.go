package plugins

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/telemetry/statuspage"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

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
				Limits: statuspage.Limits{
					MaxCalls: 4, MaxCallsPerTarget: 1, Timeouts: map[string]string{"example.org/helm": "1h0m0s"},
				},
			},
			{
				File: "mixed", Name: "mixed", Version: "v1", Types: []string{"example.org/mixed"}, State: "Running",
				Capabilities: []string{"hooks"}, HookTypes: []string{"End"},
				HookedTypes: []string{"example.org/helm", "example.org/mixed"},
			},
			{File: "new", State: "Starting"},
			{File: "policy", State: "Missing", Problem: "the file is not in the plugin directory"},
			{File: "refused", State: "Refused", SHA256: strings.Repeat("ab", 32), Problem: "may be written by others"},
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
	commandtest.ExpectGolden(t, "list.golden.txt", listText(somePlugins(), false))
	commandtest.ExpectGolden(t, "list-wide.golden.txt", listText(somePlugins(), true))
	var out strings.Builder
	if err := cli.PrintYAML(&out, verificationOf(somePlugins())); err != nil {
		t.Fatal(err)
	}
	commandtest.ExpectGolden(t, "list.golden.yaml", out.String())
	if _, err := config.Parse("host.yaml", []byte(commandtest.ConfigHead+out.String()), "host"); err != nil {
		t.Errorf("expected a part of a HostConfiguration, but found %v", err)
	}
}

func TestPluginsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	config := commandtest.WriteFile(t, "host.yaml", commandtest.ConfigHead+"typo: 1")
	pergola.ExpectErrors(t, cli.ExitNo, []commandtest.ErrorCase{
		{"no such directory", "plugins list --plugin-dir /no/where", []string{"read plugin directory", "/no/where"}},
		{"a file with errors", "plugins list --plugin-dir / --config " + config, []string{"host.yaml: typo"}},
		{"nothing to verify", "plugins verify " + t.TempDir(), []string{"there are no plugins in"}},
		{"which item?", "plugins run mock", []string{"--item is missing"}},
		{"the operations", "plugins run mock --operation dance", []string{"--operation", "force-reconcile", `"dance"`}},
		{"no such item", "plugins run mock --item /no/where", []string{"/no/where"}},
	}...)
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
		{File: "good", Rules: rules[:1], Limits: statuspage.Limits{MaxCalls: 1}},
		{File: "bad", Rules: rules},
		{File: "refused", Problem: "may be written by others"},
		{File: "clash", Problem: "does not run", Rules: rules[:1]},
	}
	commandtest.ExpectGolden(t, "verify.golden.txt", verdictsText(verdicts))
	for i, want := range []bool{false, true, true, true} {
		if got := verdicts[i].broken(); got != want {
			t.Errorf("%s: expected broken to be %t", verdicts[i].File, want)
		}
	}
}
