package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
)

var pergola commandtest.Program = func() *cobra.Command { return newCommand(cli.Name) }

// TestNonsenseIsRefused: unknown words are an error with a code of its own, and not the help and success.
func TestNonsenseIsRefused(t *testing.T) {
	t.Parallel()
	pergola.ExpectErrors(t, cli.ExitFailure, []commandtest.ErrorCase{
		{"no such command", "nonsense", []string{`there is no command "pergola nonsense"`, "--help"}},
		{"a slip of the pen", "item", []string{`"pergola item"`, "did you mean items?"}},
		{"no such command for items", "items nonsense", []string{`"pergola items nonsense"`, "--help"}},
		{"a slip of the pen below items", "items dif a", []string{"did you mean diff?"}},
		{"no such shell", "completion nonsense", []string{`"pergola completion nonsense"`}},
		{"no such flag", "plugins list --nonsense", []string{"--nonsense"}},
		{"no such flag before a command", "--nonsense", []string{"--nonsense"}},
		{"no such format", "plugins list -o xml", []string{"-o, --output", "text, json, wide or yaml", "xml"}},
		{"no such colour", "items tree a --color x", []string{"auto, always or never"}},
		{"an argument too many", "crds nonsense", []string{"nonsense"}},
		{"another argument too many", "host nonsense", []string{"nonsense"}},
		{"no such definition", "crds --only targets,roses", []string{"--only", "contexts, deploy", `"roses"`}},
		{"no item", "items show", []string{"expected ITEM, but found nothing", "pergola items show --help"}},
		{"two files", "config check a b", []string{`expected FILE, but found 2 arguments: ["a" "b"]`}},
		{"no file or type", "plugins schema", []string{"expected FILE [TYPE], but found nothing"}},
		{"which plugin?", "plugins verify", []string{"expected one plugin, or --attach"}},
		{"two plugins", "plugins run mock --attach unix:///a", []string{`both "mock" and --attach`}},
	}...)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--version"}} {
		if out, err := pergola.Run(t, args...); err != nil || out != "pergola version "+version+"\n" {
			t.Errorf("%v: expected the version, but found %q, %v", args, out, err)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/usr/bin/pergola": "pergola", "kubectl-pergola2": "pergola",
		"kubectl-pergola": "kubectl pergola", "/home/me/bin/kubectl-pergola.exe": "kubectl pergola",
	} {
		if got := displayName(name); got != want {
			t.Errorf("%s: expected %q, but found %q", name, want, got)
		}
	}
	var kubectl commandtest.Program = func() *cobra.Command { return newCommand("kubectl pergola") }
	for command, usage := range map[string]string{
		"": "kubectl pergola [command]", "items": "kubectl pergola items", "plugins": "kubectl pergola plugins",
		"items diff --help": "kubectl pergola items diff",
	} {
		out, err := kubectl.Run(t, strings.Fields(command)...)
		if err != nil || !strings.Contains(out, usage) || strings.Contains(out, "\n  pergola ") {
			t.Errorf("%s: expected help with %q and no other name, but found %v, %s", command, usage, err, out)
		}
	}
}
