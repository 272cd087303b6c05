// Package binaries builds the programs of a test cluster and keeps them in the
// user's cache directory, where every clone of the repository finds them again.
//
// A build is several minutes of work on a small machine, and Go's own build
// cache for it is too large to keep. What is kept is the result, below a
// directory named after everything the result depends on.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pergola-deploy/pergola/test/cluster/internal/filelock"
)

// multicall is the binary that is all the programs; see components/main.go.
const multicall = "components"

// programs are the names the multi-call binary answers to.
var programs = []string{
	"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
	"kubelet", "kube-proxy", "kubectl",
}

// Set is the programs built from one version of the source.
type Set struct {
	source  fs.FS
	version string
	home    string
}

// Locate returns the set that belongs to the source, whether it has been built
// or not. The source holds go.mod, go.sum and the packages components and
// pause. It fails if the source names no Kubernetes version or the user has no
// cache directory.
func Locate(source fs.FS) (*Set, error) {
	version, err := kubernetesVersion(source)
	if err != nil {
		return nil, err
	}
	key, err := Key(source)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the user's cache directory: %w", err)
	}
	return &Set{
		source:  source,
		version: version,
		home:    filepath.Join(cache, "pergola", "cluster", key),
	}, nil
}

// Dir returns the directory the programs are in once Build has returned nil.
func (s *Set) Dir() string { return filepath.Join(s.home, "bin") }

// Build makes sure that the programs are in Dir. It returns at once if they
// are; otherwise it builds them, which takes minutes, and reports its progress
// to out. Dir never holds a partial result, and of several processes that
// build the same set one does and the others wait for it.
func (s *Set) Build(ctx context.Context, out io.Writer) error {
	if s.built() {
		return nil
	}
	cache := filepath.Dir(s.home)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("create cache directory: %w", err)
	}
	lock, err := filelock.Acquire(ctx, cache, func() {
		_, _ = fmt.Fprintln(out, "another process builds the cluster's programs; waiting for it")
	})
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release() }()
	if s.built() {
		return nil
	}
	partial := s.home + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("remove an interrupted build: %w", err)
	}
	err = s.buildIn(ctx, partial, out)
	if err == nil {
		err = os.Rename(partial, s.home)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("build the cluster's programs: %w", err), os.RemoveAll(partial))
	}
	return nil
}

func (s *Set) built() bool {
	_, err := os.Stat(s.Dir())
	return err == nil
}

// buildIn fills the directory home with src and bin, and leaves only bin.
func (s *Set) buildIn(ctx context.Context, home string, out io.Writer) error {
	src, bin := filepath.Join(home, "src"), filepath.Join(home, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(src, s.source); err != nil {
		return fmt.Errorf("copy source: %w", err)
	}
	if err := compile(ctx, src, bin, s.version, out); err != nil {
		return err
	}
	for _, name := range programs {
		if err := os.Symlink(multicall, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	return os.RemoveAll(src)
}

// compile builds the two commands in the module at src into the directory bin.
func compile(ctx context.Context, src, bin, version string, out io.Writer) error {
	packages := []string{"./" + multicall, "./pause"}
	p := newProgress(out)
	stop := p.report(ctx)
	defer stop()

	list := goCommand(ctx, src, append([]string{"list", "-mod=readonly", "-deps"}, packages...))
	list.Stderr = p
	all, err := list.Output()
	if err != nil {
		return fmt.Errorf("list packages: %w\n%s", err, p.rest())
	}
	p.expect(all)

	args := []string{"build", "-mod=readonly", "-v", "-trimpath", "-ldflags", linkerFlags(version), "-o", bin + "/"}
	build := goCommand(ctx, src, append(args, packages...))
	build.Stdout, build.Stderr = p, p
	if err := build.Run(); err != nil {
		return fmt.Errorf("compile: %w\n%s", err, p.rest())
	}
	p.finish()
	return nil
}

// goCommand returns a go command that runs in dir. It is interrupted, not
// killed, when the context ends, so that it removes its temporary files.
func goCommand(ctx context.Context, dir string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
