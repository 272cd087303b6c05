package cluster

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// progressInterval is how often a build says how far it is.
const progressInterval = 15 * time.Second

// part is a part of the programs that is built on its own.
type part struct {
	// name is that of the binary, whose package is components/NAME, and programs are the names that it answers to.
	name     string
	programs []string
	// others are the packages of binaries that belong to it.
	others []string
	// about is how many packages it consists of beside those of the parts before it.
	about int
}

// parts are all parts, in the order in which they are of use.
var parts = []part{
	{name: "controlplane", programs: []string{"etcd", "kube-apiserver", "kubectl"}, about: 2400},
	{
		name: "node", programs: []string{"kube-controller-manager", "kube-scheduler", kubelet, "kube-proxy"},
		others: []string{"pause"}, about: 500,
	},
}

// requirement finds the Kubernetes version in go.mod, its only place.
var requirement = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes (v\d+\.\d+\.\d+)$`)

// Programs are the programs of a cluster: those of $KUBEBUILDER_ASSETS, or else those built from one version of the
// source. These are kept in the user's cache directory, where every clone of the repository finds them again: a build
// is minutes of work, and Go's own build cache for it is too large to keep.
type Programs struct {
	source  fs.FS
	version string
	home    string
	given   string // is $KUBEBUILDER_ASSETS
}

// Locate returns the programs that belong to the source, whether they have been built or not, unless the environment
// names others. The source holds go.mod, go.sum and the packages components and pause. It fails if the source names no
// Kubernetes version or the user has no cache directory.
func Locate(source fs.FS) (*Programs, error) {
	mod, err := fs.ReadFile(source, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("read Kubernetes version: %w", err)
	}
	match := requirement.FindSubmatch(mod)
	if match == nil {
		return nil, errors.New("read Kubernetes version: go.mod does not require k8s.io/kubernetes")
	}
	p := &Programs{source: source, version: string(match[1]), given: os.Getenv(assetsEnv)}
	if p.given != "" {
		return p, nil
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("find the user's cache directory: %w", err)
	}
	p.home = filepath.Join(cache, "pergola", "cluster", key)
	return p, nil
}

// Dir returns the directory the programs are in once Build has returned nil.
func (p *Programs) Dir() string {
	if p.given != "" {
		return p.given
	}
	return filepath.Join(p.home, "bin")
}

// BuildControlPlane is Build for etcd, kube-apiserver and kubectl alone.
func (p *Programs) BuildControlPlane(ctx context.Context, out io.Writer) error {
	return p.provide(ctx, out, parts[:1])
}

// Build makes sure that the programs are in Dir. It returns at once if they are; otherwise it builds them, which takes
// minutes, and reports its progress to out. Dir never holds a partial binary, and of several processes that build the
// same programs one does and the others wait for it. With $KUBEBUILDER_ASSETS it builds nothing, and fails if there is
// no control plane there or one of a version that is not supported.
func (p *Programs) Build(ctx context.Context, out io.Writer) error { return p.provide(ctx, out, parts) }

func (p *Programs) provide(ctx context.Context, out io.Writer, parts []part) error {
	if p.given != "" {
		return p.useGiven(ctx, out)
	}
	for _, part := range parts {
		if err := p.build(ctx, out, part); err != nil {
			return fmt.Errorf("build the cluster's programs: %w", err)
		}
	}
	return nil
}

func (p *Programs) build(ctx context.Context, out io.Writer, part part) (err error) {
	if p.built(part) {
		return nil
	}
	if err := os.MkdirAll(p.Dir(), 0o755); err != nil {
		return fmt.Errorf("create cache directory: %w", err)
	}
	unlock, err := lock(ctx, p.home, func() {
		_, _ = fmt.Fprintln(out, "another process builds the cluster's programs; waiting for it")
	})
	if err != nil {
		return err
	}
	defer unlock()
	if p.built(part) {
		return nil
	}
	partial := filepath.Join(p.home, "partial")
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("remove an interrupted build: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(partial)) }()
	return p.buildIn(ctx, partial, part, out)
}

func (p *Programs) built(part part) bool {
	_, err := os.Stat(filepath.Join(p.Dir(), part.name))
	return err == nil
}

// buildIn builds a part with the help of a new directory. The binary by which the part is known to be built comes last.
func (p *Programs) buildIn(ctx context.Context, dir string, part part, out io.Writer) error {
	src, bin := filepath.Join(dir, "src"), filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	if err := os.CopyFS(src, p.source); err != nil {
		return fmt.Errorf("copy source: %w", err)
	}
	if err := p.compile(ctx, src, bin, part, out); err != nil {
		return err
	}
	for _, name := range part.programs {
		if err := os.Symlink(part.name, filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(part.programs, part.others, []string{part.name}) {
		if err := os.Rename(filepath.Join(bin, name), filepath.Join(p.Dir(), name)); err != nil {
			return err
		}
	}
	return nil
}

// compile builds the commands of a part in the module at src into the directory bin.
func (p *Programs) compile(ctx context.Context, src, bin string, part part, out io.Writer) error {
	_, _ = fmt.Fprintf(out, "building Kubernetes' %s: once per version, minutes on two cores\n",
		strings.Join(part.programs, ", "))
	build := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-v", "-trimpath", "-ldflags", p.linkerFlags(),
		"-o", bin+"/", "./components/"+part.name)
	for _, name := range part.others {
		build.Args = append(build.Args, "./"+name)
	}
	build.Dir = src
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	// It removes its temporary files when it is interrupted, but not when it is killed.
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) }
	build.WaitDelay = 10 * time.Second
	output, err := build.StderrPipe()
	if err != nil {
		return err
	}
	if err := build.Start(); err != nil {
		return err
	}
	var messages []string
	packages, started := 0, time.Now()
	next := started.Add(progressInterval)
	for lines := bufio.NewScanner(output); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "go: downloading "):
		case strings.ContainsAny(line, " \t:"):
			messages = append(messages, line)
		default:
			packages++
		}
		if now := time.Now(); now.After(next) {
			next = now.Add(progressInterval)
			_, _ = fmt.Fprintf(out, "%s  compiled %d of about %d packages\n",
				now.Sub(started).Round(time.Second), packages, part.about)
		}
	}
	if err := build.Wait(); err != nil {
		return fmt.Errorf("compile: %w\n%s", err, strings.Join(messages, "\n"))
	}
	_, _ = fmt.Fprintf(out, "built in %s\n", time.Since(started).Round(time.Second))
	return nil
}

// key names everything the programs depend on, except the Go release: the Kubernetes version for people to read, and a
// hash of the source, the linker flags and the architecture. Equal sources have equal keys on every machine.
func (p *Programs) key() (string, error) {
	hash := sha256.New()
	// Each part goes in with its length, so that no two lists of parts make the same stream of bytes.
	add := func(part []byte) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write(part)
	}
	add([]byte(runtime.GOOS + "/" + runtime.GOARCH))
	add([]byte(p.linkerFlags()))
	err := fs.WalkDir(p.source, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(p.source, path)
		if err != nil {
			return err
		}
		add([]byte(path))
		add(content)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash source: %w", err)
	}
	return fmt.Sprintf("%s-%x", p.version, hash.Sum(nil)[:6]), nil
}

// linkerFlags strips the binaries and sets the version that the programs report. Without it kubectl fails to compare
// its version with the server's.
func (p *Programs) linkerFlags() string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(p.version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const variable = " -X k8s.io/component-base/version."
	return "-s -w" +
		variable + "gitVersion=" + p.version +
		variable + "gitMajor=" + major +
		variable + "gitMinor=" + minor
}
