package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// hostCommand is the command on the page that does not end.
const hostCommand = "pergola host --plugin-dir bin/plugins --standalone\n"

// TestGettingStarted: the commands of the page work without a cluster of one's own, from the first to the last, and
// print the shown output.
func TestGettingStarted(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "getting-started.md"))
	if err != nil {
		t.Fatal(err)
	}
	main, begin, found := strings.Cut(string(page), "## Without a cluster\n")
	_, tutorial, hasTarget := strings.Cut(main, "## Create a Target\n")
	if !found || !hasTarget || !strings.Contains(begin, hostCommand) {
		t.Fatalf("expected a part without a cluster, with the command %q, after the one about Targets", hostCommand)
	}
	if err := controlPlane.AllowTokens(t.Context(), "default"); err != nil {
		t.Fatal(err)
	}
	plugins := pluginDir(t, "manifest", "mock")
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins, Standalone: true})

	dir := newcomer(t, plugins)
	script, shown := []string{"set -eo pipefail"}, []string{}
	for _, block := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(begin+tutorial, -1) {
		switch block[1] {
		case "yaml":
			name, _, _ := strings.Cut(strings.TrimPrefix(block[2], "# "), "\n")
			if err := os.WriteFile(filepath.Join(dir, name), []byte(block[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		case "sh":
			script = append(script, strings.ReplaceAll(block[2], hostCommand, ""))
		default:
			shown = append(shown, block[2])
		}
	}
	out := do(t, dir, strings.Join(script, "\n"))

	for line := range strings.Lines(strings.Join(shown, "")) {
		if pattern := asShown(line); !strings.HasPrefix(line, "$ ") && !pattern.MatchString(out) {
			t.Errorf("expected a line like %q in\n%s", line, out)
		}
	}
	if !strings.Contains(out, "good morning") {
		t.Errorf("expected the greeting in\n%s", out)
	}
	err = admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "greeting"}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("expected the ConfigMap to be gone, but found %v", err)
	}
}

// newcomer returns a directory that looks like a checkout after `make build cluster`.
func newcomer(t *testing.T, plugins string) (dir string) {
	t.Helper()
	assets, err := testenv.Assets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, file := range map[string]string{
		"bin/pergola": filepath.Join(binaries, "pergola"), "bin/kubectl": filepath.Join(assets, "kubectl"),
		"bin/plugins": plugins, ".cluster/kubeconfig": controlPlane.Kubeconfig,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(file, path); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// do has a shell carry out commands, and returns what they print. Those of make are only looked at: what they would
// make is there.
func do(t *testing.T, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience) // for many commands
	defer cancel()
	dryRun := fmt.Sprintf("make() { command make -C %q --dry-run \"$@\" >/dev/null; }\n", testenv.Root())
	shell := exec.CommandContext(ctx, "bash", "-c", dryRun+script)
	var out bytes.Buffer
	shell.Dir, shell.Stdout, shell.Stderr = dir, &out, &out
	shell.Env = append(os.Environ(), "GORACE=halt_on_error=1", "HOME="+dir)
	if err := shell.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

// asShown is how a line looks that a page shows, whatever the width of columns and the time that has gone by.
func asShown(line string) *regexp.Regexp {
	words := strings.Fields(line)
	for i, word := range words {
		words[i] = regexp.MustCompile(`^\d+s$`).ReplaceAllString(regexp.QuoteMeta(word), `\S+`)
	}
	return regexp.MustCompile(`(?m)^\s*` + strings.Join(words, `[ \t]+`) + `\s*$`)
}
