package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

const page = "docs/plugins-in-image.md"

var (
	fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")
	title  = regexp.MustCompile(`\A# ([a-z-]+\.yaml)\n`)
)

// blocks are the code blocks of the page in a language, with the image that the tests have in the place of Pergola's.
func blocks(language string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), page))
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	var found []string
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		if block[1] == language {
			found = append(found, strings.ReplaceAll(block[2], "registry.example.org/team/pergola:v1.2.3", hostImage))
		}
	}
	return found, nil
}

// prepareWork makes a directory in which the commands of the page can be run: with its files, the plugin, and the plugins of Pergola.
func prepareWork(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(work, "plugins"), 0o755); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	documents, err := blocks("yaml")
	if err != nil {
		return err
	}
	for _, document := range documents {
		name := "deployment.yaml" // the one that has no name on the page
		if found := title.FindStringSubmatch(document); found != nil {
			name = found[1]
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(document), 0o644); err != nil {
			return fmt.Errorf("write file of the page: %w", err)
		}
	}
	if err := buildHello(ctx, filepath.Join(work, "module")); err != nil {
		return err
	}
	kubeconfig, err := testenv.InlineKubeconfig(node.Config)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(work, "kubeconfig"), kubeconfig, 0o600)
}

// commands are those of the page, by the first words of each.
func commands(t *testing.T, begin string) (found []string) {
	t.Helper()
	scripts, err := blocks("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		for line := range strings.Lines(script) {
			if strings.HasPrefix(line, begin) {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	return found
}

// shell runs a command of the page as its reader does.
func shell(ctx context.Context, dir, command string, env ...string) (string, error) {
	assets, err := testenv.Assets(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "bash", "-euc", "umask 022; "+command)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), env, []string{
		"KUBECONFIG=" + filepath.Join(work, "kubeconfig"),
		"PATH=" + assets + ":" + built("test-image", "programs", "linux", goarch) + ":" + os.Getenv("PATH"),
	})
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return string(out), nil
}

// mustRun runs the one command of the page that begins like this and has something in it.
func mustRun(t *testing.T, begin, has string) string {
	t.Helper()
	for _, command := range commands(t, begin) {
		if strings.Contains(command, has) {
			out, err := shell(t.Context(), work, command)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	t.Fatalf("%s has no command that begins with %q and has %q", page, begin, has)
	return ""
}
