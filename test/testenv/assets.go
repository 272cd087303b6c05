package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// assetsEnv names the directory with etcd and kube-apiserver, as everybody knows it who uses envtest.
const assetsEnv = "KUBEBUILDER_ASSETS"

// Root is the root directory of the repository, the one above the working directory: the paths of the source are not in
// programs.
func Root() string { return root }

var root = func() string {
	dir, _ := os.Getwd()
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	return dir
}()

// Assets returns the directory with etcd, kube-apiserver and kubectl: that of $KUBEBUILDER_ASSETS, or that of
// test/cluster, which builds what is missing. That takes some minutes the first time; progress goes to standard error.
func Assets(ctx context.Context) (string, error) {
	if dir := os.Getenv(assetsEnv); dir != "" {
		return dir, nil
	}
	build := exec.CommandContext(ctx, "go", "run", ".", "build", "--control-plane")
	build.Dir = filepath.Join(Root(), "test", "cluster")
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build the control plane's binaries: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// binariesEnv names a directory with the programs under test, instead of bin.
const binariesEnv = "PERGOLA_TEST_BINARIES"

// Binaries returns the directory with the programs under test, as users get them: pergola, plugins/ and, for tests
// alone, test/.
func Binaries() (string, error) {
	dir := os.Getenv(binariesEnv)
	if dir == "" {
		dir = filepath.Join(Root(), "bin")
	}
	for _, name := range []string{"pergola", "plugins", "test"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			const advice = "run `make build test-plugins`, or `make test` for everything"
			return "", fmt.Errorf("find the programs under test: %s: %w", advice, err)
		}
	}
	return dir, nil
}

// AddPlugin puts a program into a plugin directory under a file name, as a link where the file system allows it,
// because programs are large. Whoever wants another content there replaces the file, and never writes to it.
func AddPlugin(program, dir, file string) error {
	path := filepath.Join(dir, file)
	if os.Link(program, path) == nil {
		return nil
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("add plugin: %w", err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		return fmt.Errorf("add plugin: %w", err)
	}
	return nil
}
