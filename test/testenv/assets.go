package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// assetsEnv names the directory with etcd and kube-apiserver, as everybody knows it who uses envtest.
const assetsEnv = "KUBEBUILDER_ASSETS"

// Root is the root directory of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Assets returns the directory with etcd and kube-apiserver: that of $KUBEBUILDER_ASSETS, or that of test/cluster, which builds
// what is missing. That takes some minutes the first time; progress goes to standard error.
func Assets(ctx context.Context) (string, error) {
	if dir := os.Getenv(assetsEnv); dir != "" {
		return dir, nil
	}
	build := exec.CommandContext(ctx, "go", "run", ".", "build")
	build.Dir = filepath.Join(Root(), "test", "cluster")
	build.Stderr = os.Stderr
	out, err := build.Output()
	if err != nil {
		return "", fmt.Errorf("build the control plane's binaries: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Binaries returns the directory with the binaries under test: bin/race, which `make test` builds, with the race detector.
func Binaries() (string, error) {
	dir := filepath.Join(Root(), "bin", "race")
	if _, err := os.Stat(filepath.Join(dir, "pergola")); err != nil {
		return "", errors.Join(errors.New("the binaries under test are missing: run `make race-binaries`, or `make test` for everything"), err)
	}
	return dir, nil
}
