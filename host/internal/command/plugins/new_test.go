package plugins

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// makes runs make in a module, with this test binary as pergola, and expects texts in its output and the end.
func makes(t *testing.T, dir, goals string, texts ...string) {
	t.Helper()
	args := append(strings.Fields(goals), "-C", dir, "PERGOLA="+filepath.Join(dir, "..", "pergola"))
	cmd := exec.CommandContext(t.Context(), "make", args...)
	// The flags of the programs under test, for the build cache. The modules are in the cache since the build of Pergola.
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "CGO_ENABLED=0", "GOFLAGS=-trimpath", "GOSUMDB=off")
	out, err := cmd.CombinedOutput()
	printed := fmt.Sprintf("%s\n%v", out, err)
	for _, text := range texts {
		if !strings.Contains(printed, text) {
			t.Errorf("make %s: expected %q in\n%s", goals, text, printed)
		}
	}
}

// done is the end without an error.
const done = "\n<nil>"

// TestPluginsNew: a new plugin builds, passes its own tests and runs at once, by its Makefile, also at a Target of an
// own type.
func TestPluginsNew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "new one")
	out, err := pergola.Run(t, "plugins", "new", "roses", "--type", "example.org/rose", "--dir", dir,
		"--replace", testenv.Root())
	if err != nil || !strings.HasPrefix(out, "The plugin roses is in "+dir) {
		t.Fatalf("found %q, %v", out, err)
	}
	pluginOf(t, filepath.Dir(dir), "pergola")
	makes(t, dir, "all verify run", "roses: good. ", `exports {"thing":"default/roses"}`, done)
	makes(t, dir, "run OPERATION=delete", "succeeded", done)
	if _, gone := os.Stat(filepath.Join(dir, "bin", "state.json")); !os.IsNotExist(gone) {
		t.Errorf("delete: found %v", gone)
	}

	writeTarget := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "target.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const account = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Target\nmetadata: {name: account}\n" +
		"spec: {type: example.org/account, secretRef: {name: account}}\n"
	writeTarget(account)
	makes(t, dir, "run", `there is no Secret "default/account"; create it, as a further YAML document`)
	writeTarget(account + "---\n{apiVersion: v1, kind: Secret, metadata: {name: account}}")
	makes(t, dir, "run", "succeeded", done)
	makes(t, dir, "verify --dry-run", "verify bin/plugins --item item.yaml --target target.yaml", done)
	makes(t, dir, "verify --dry-run TARGET=kubeconfig", "--item item.yaml --target kubeconfig", done)
}

// TestPluginModuleFiles: the files for a released version.
func TestPluginModuleFiles(t *testing.T) {
	t.Parallel()
	m := &pluginModule{Name: "roses", Type: "example.org/rose"}
	if err := m.complete("v1.2.3"); err != nil {
		t.Fatal(err)
	}
	files, err := m.files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main.go", "main_test.go"} {
		if formatted, err := format.Source(files[name]); err != nil || !bytes.Equal(formatted, files[name]) {
			t.Errorf("%s is not formatted (%v)", name, err)
		}
	}
	own, err := os.ReadFile(filepath.Join(testenv.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := "module example.org/roses\n\n" + regexp.MustCompile(`(?m)^go .*$`).FindString(string(own)) +
		"\n\nrequire github.com/pergola-deploy/pergola v1.2.3\n"
	if got := string(files["go.mod"]); got != want || len(files[".gitignore"]) == 0 {
		t.Errorf("go.mod: expected\n%s\nbut found\n%s", want, got)
	}
}

func TestPluginsNewErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	full := filepath.Dir(commandtest.WriteFile(t, "main.go", "package mine"))
	other := filepath.Dir(commandtest.WriteFile(t, "go.mod", "module example.org/other\n"))
	dir := filepath.Join(t.TempDir(), "none")
	const typed, replace = " --type example.org/thing", " --replace ../../../.."
	const hello = "plugins new hello" + typed
	to := " --dir " + dir
	pergola.ExpectErrors(t, cli.ExitNo, []commandtest.ErrorCase{
		{"no name of a plugin", "plugins new Hello_1" + typed + replace + to, []string{"NAME", `"Hello_1"`}},
		{"no type", "plugins new hello" + replace + to, []string{"--type", "example.org/thing"}},
		{"a type without a group", "plugins new hello --type thing" + replace + to, []string{"--type", `"thing"`}},
		{"no path of a module", hello + replace + to + " --module a//b", []string{"--module", "a//b"}},
		{"this is no release", hello + to, []string{"--replace is missing", commandtest.Version}},
		{"no checkout", hello + to + " --replace /no/where", []string{"--replace", "/no/where/go.mod"}},
		{"a checkout of something else", hello + to + " --replace " + other, []string{`"example.org/other"`}},
		{"nothing is overwritten", hello + replace + " --dir " + full, []string{"--dir", full, "main.go"}},
		{"a file in the way", hello + replace + " --dir " + filepath.Join(full, "main.go"), []string{"--dir", "main.go"}},
	}...)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("expected that nothing was written, but found %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(full, "main.go")); string(content) != "package mine" {
		t.Errorf("main.go was overwritten: %s, %v", content, err)
	}
}
