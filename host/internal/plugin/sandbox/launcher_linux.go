package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// launcherName is the first argument of a launcher; no path, as that of other processes mostly is.
	launcherName = "pergola-launcher"
	// firstExtraFile is the descriptor of exec.Cmd.ExtraFiles[0] in the child.
	firstExtraFile = 3
	// oomScoreStep makes the kernel count as much as half of the machine's memory more for the program than for the host.
	oomScoreStep = 500
	oomScoreMax  = 1000
)

// order is the second argument of a launcher, as JSON. Its environment is that of the program.
type order struct {
	Args        []string
	Program     int    // its descriptor
	OpenFiles   uint64 // 0: as they are
	DataBytes   uint64 // 0: as it is
	Confine     bool
	Read, Write []string
}

// Command prepares to run a program, until the end of ctx at the latest. The caller may set Stdout, Stderr and
// WaitDelay, and runs it by Start; the program's standard input is empty. With confinement Required it fails where
// the kernel cannot confine, with errors.ErrUnsupported.
func Command(ctx context.Context, spec Spec) (*exec.Cmd, error) {
	return command(ctx, spec, Supported())
}

func command(ctx context.Context, spec Spec, support Support) (*exec.Cmd, error) {
	if err := support.check(spec.Confinement); err != nil {
		return nil, err
	}
	told, err := json.Marshal(order{
		Args:      append([]string{spec.Path}, spec.Args...),
		Program:   firstExtraFile + len(spec.ExtraFiles),
		OpenFiles: spec.OpenFiles,
		DataBytes: dataLimit(spec.MemoryBytes),
		Confine:   spec.Confinement != Off && support.ABI > 0,
		Read:      spec.Read,
		Write:     spec.Write,
	})
	if err != nil {
		return nil, fmt.Errorf("write the launcher's orders: %w", err)
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{launcherName, string(told)}
	cmd.Env = append([]string{}, withMemoryLimit(spec.Env, spec.MemoryBytes)...)
	cmd.ExtraFiles = append(slices.Clone(spec.ExtraFiles), spec.Program)
	return cmd, nil
}

// withMemoryLimit lets Go's garbage collector know of the limit, a tenth before it: it counts neither the program's own
// code nor what C libraries use.
func withMemoryLimit(env []string, memoryBytes uint64) []string {
	const name = "GOMEMLIMIT="
	if memoryBytes == 0 || slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }) {
		return env
	}
	return append(slices.Clone(env), name+strconv.FormatUint(memoryBytes/10*9, 10))
}

// init is a launcher's main function; see the package comment.
func init() {
	if len(os.Args) == 2 && os.Args[0] == launcherName {
		// Some rights belong to a thread, so the same one has to execute the program.
		runtime.LockOSThread()
		err := launch(os.Args[1])
		fmt.Fprintln(os.Stderr, err)
		if errors.Is(err, unix.ENOEXEC) || errors.Is(err, unix.EACCES) {
			os.Exit(ExitNotExecutable)
		}
		os.Exit(ExitNotStarted)
	}
}

// launch turns this process into the program. It returns if it cannot. The limits come last: they must not hit the
// launcher itself.
func launch(text string) error {
	var told order
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return fmt.Errorf("%s is internal to pergola and must not be run directly: %w", launcherName, err)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"let the kernel take it first when memory is short", raiseOOMScore},
		{"keep it from gaining rights", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"make it the parent of its orphans", func() error {
			return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
		}},
		{"confine it", told.confine},
		{"limit its core dumps", func() error { return limit(unix.RLIMIT_CORE, 0) }},
		{"limit its open files", func() error { return limitIfSet(unix.RLIMIT_NOFILE, told.OpenFiles) }},
		{"limit its memory", func() error { return limitIfSet(unix.RLIMIT_DATA, told.DataBytes) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("cannot %s: %w", step.name, err)
		}
	}
	return told.execute()
}

// execute replaces this process by the program. It does so by the name of the descriptor: unlike execveat, syscall.Exec
// knows of the other threads, and of the limit of open files that Go raises for itself and not for others.
func (o order) execute() error {
	var magic [2]byte
	n, err := unix.Pread(o.Program, magic[:], 0)
	if err != nil {
		return fmt.Errorf("cannot read its first bytes: %w", err)
	}
	script := string(magic[:n]) == "#!"
	first := uint(o.Program)
	if script { // its interpreter opens it by the same name
		first++
	}
	// The host may have more from its own parent. A kernel before 5.11 leaves them open, which does no harm.
	_ = unix.CloseRange(first, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	err = syscall.Exec(descriptorPath(o.Program), o.Args, os.Environ()) //nolint:gosec // what to run is the host's to know
	return o.explain(err, script)
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// explain returns the cause of an error of execve.
func (o order) explain(err error, script bool) error {
	var fileSystem unix.Statfs_t
	switch {
	case err == unix.ENOENT && script: //nolint:errorlint // it comes from the system call
		return fmt.Errorf("the interpreter in its first line does not exist here: %w", err)
	case err == unix.ENOENT: //nolint:errorlint // it comes from the system call
		return fmt.Errorf("its dynamic loader does not exist here; build it with CGO_ENABLED=0: %w",
			err)
	case err == unix.ENOEXEC: //nolint:errorlint // it comes from the system call
		return fmt.Errorf("is no program for this machine, and no script; build it with GOOS=linux GOARCH=%s: %w",
			runtime.GOARCH, err)
	case err != unix.EACCES: //nolint:errorlint // it comes from the system call
		return err
	case unix.Fstatfs(o.Program, &fileSystem) == nil && fileSystem.Flags&unix.ST_NOEXEC != 0:
		return fmt.Errorf("lies on a file system that is mounted noexec, where nothing can be run; mount that without "+
			"this option, or have the plugin copied to where it can be run, by itself: install --to DIR: %w", err)
	case o.Confine:
		return fmt.Errorf("is not executable, or its interpreter is unreadable for a confined program: %w", err)
	default:
		return fmt.Errorf("is not executable: %w", err)
	}
}

// raiseOOMScore makes the kernel prefer the program to the host when memory is short. The pod's rank stays.
func raiseOOMScore() error {
	const file = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(strconv.Itoa(min(score+oomScoreStep, oomScoreMax))), 0)
}

func limitIfSet(resource int, most uint64) error {
	if most == 0 {
		return nil
	}
	return limit(resource, most)
}

// limit sets a limit, soft and hard, that is not above the hard one in force.
func limit(resource int, most uint64) error {
	var current unix.Rlimit
	if err := unix.Getrlimit(resource, &current); err != nil {
		return err
	}
	most = min(most, current.Max)
	return unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most})
}

// Protect keeps other processes of the same user from reading this one's memory, environment and descriptors, and from
// tracing it, but for root with its capabilities. It is for the host: unconfined programs run as the same user. The
// process dumps no core any more. Its children are not protected.
func Protect() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process not dumpable: %w", err)
	}
	return nil
}
