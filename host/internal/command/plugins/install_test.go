package plugins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
)

// TestPluginsInstall: what arguments mean. How files are copied is tested in package plugindir.
func TestPluginsInstall(t *testing.T) {
	t.Parallel()
	program, to := commandtest.WriteFile(t, "roses-v2", "a program"), t.TempDir()
	for arg, file := range map[string]string{program: "roses-v2", "roses=" + program: "roses"} {
		path := filepath.Join(to, file)
		out, err := pergola.Run(t, "plugins", "install", "--to", to, arg)
		if err != nil || !strings.HasSuffix(out, " is installed as "+path+"\n") {
			t.Errorf("%s: found %q, %v", arg, out, err)
		}
		if content, err := os.ReadFile(path); err != nil || string(content) != "a program" {
			t.Errorf("%s: expected the program, but found %q, %v", arg, content, err)
		}
	}
	install := "plugins install --to " + t.TempDir() + " "
	pergola.ExpectErrors(t, cli.ExitNo, []commandtest.ErrorCase{
		{"a host would not see it", install + ".roses=" + program, []string{`a file that is not hidden`, `".roses"`}},
		{"it has to be said what is copied", install + "roses=", []string{"no such file or directory"}},
		{"there is no such directory", "plugins install --to /no/where " + program, []string{"/no/where; create it"}},
	}...)
}
