package sandbox

import (
	"encoding/gob"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// launcherName is the first argument of a launcher; no path, as that of other processes mostly is.
const launcherName = "pergola-launcher"

// firstExtraFile is the descriptor of exec.Cmd.ExtraFiles[0] in the child.
const firstExtraFile = 3

// init is a launcher's main function; see the package comment.
func init() {
	if len(os.Args) == 1 && os.Args[0] == launcherName {
		launch()
		os.Exit(exitNotStarted)
	}
}

// launch turns this process into the program. It returns if it cannot, having said why.
func launch() {
	// Some of what follows holds for one thread, the one that executes the program.
	runtime.LockOSThread()
	var told order
	if err := gob.NewDecoder(os.Stdin).Decode(&told); err != nil {
		fmt.Fprintf(os.Stderr, "%s is a part of pergola and not for people to start: cannot read its orders: %s\n", launcherName, err)
		return
	}
	program := firstExtraFile + told.ExtraFiles
	status := program + 1
	step, err := told.carryOut(program)
	// Whoever would read it can only be gone.
	_ = gob.NewEncoder(os.NewFile(uintptr(status), "status")).Encode(newFailure(step, err))
}

// exitNotStarted is what shells answer when a command cannot be run.
const exitNotStarted = 126

// carryOut returns only if it fails, with the step that did. The limits come last: they must not hit the launcher itself.
func (o order) carryOut(program int) (step string, err error) {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"close what is not for it", func() error { return o.closeOthers(program) }},
		{"let the kernel take it first when memory is short", raiseOOMScore},
		{"keep it from gaining rights", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{stepConfine, func() error { return o.confine(program) }},
		{"limit its core dumps", func() error { return limit(unix.RLIMIT_CORE, 0) }},
		{"limit its open files", func() error { return limitIfSet(unix.RLIMIT_NOFILE, o.OpenFiles) }},
		{"limit its memory", func() error { return limitIfSet(unix.RLIMIT_DATA, o.DataBytes) }},
		{stepExecute, func() error { return o.execute(program) }},
	} {
		if err := step.do(); err != nil {
			return step.name, err
		}
	}
	return "", nil
}

// closeOthers leaves the program an empty standard input, its outputs and its extra files. The rest, with what this process may have
// got from the host's own parent, is closed by the execve.
func (o order) closeOthers(program int) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	if err := unix.Dup3(int(null.Fd()), int(os.Stdin.Fd()), 0); err != nil {
		return err
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			return err
		}
		if fd >= program {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// execute replaces this process by the program. It does so by the name of the descriptor: unlike execveat, syscall.Exec knows of the
// other threads, and of the limit of open files that Go raises for itself and not for others.
func (o order) execute(program int) error {
	script, err := isScript(program)
	if err != nil {
		return err
	}
	if script { // its interpreter opens it by the same name
		if _, err := unix.FcntlInt(uintptr(program), unix.F_SETFD, 0); err != nil {
			return err
		}
	}
	err = syscall.Exec(descriptorPath(program), o.Args, o.Env) //nolint:gosec // what to run is the host's to know
	return explain(err, script, o.Confine)
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func isScript(fd int) (bool, error) {
	var magic [2]byte
	n, err := unix.Pread(fd, magic[:], 0)
	if err != nil {
		return false, fmt.Errorf("read its first bytes: %w", err)
	}
	return string(magic[:n]) == "#!", nil
}

// explain says what the kernel means.
func explain(err error, script, confined bool) error {
	switch {
	case err == unix.ENOENT && script: //nolint:errorlint // it comes from the system call
		return fmt.Errorf("the interpreter that its first line names does not exist here: %w", err)
	case err == unix.ENOENT: //nolint:errorlint // it comes from the system call
		return fmt.Errorf("the dynamic loader that it was linked for does not exist here; build it with CGO_ENABLED=0: %w", err)
	case err == unix.ENOEXEC: //nolint:errorlint // it comes from the system call
		return fmt.Errorf("neither a script nor a program for this machine: %w", err)
	case err == unix.EACCES && confined: //nolint:errorlint // it comes from the system call
		return fmt.Errorf("not executable, or its interpreter lies outside of what a confined program may read: %w", err)
	default:
		return err
	}
}

// oomScoreStep makes the kernel count as much as half of the machine's memory more for the program than for the host.
const (
	oomScoreStep = 500
	oomScoreMax  = 1000
)

// raiseOOMScore keeps what the pod is worth to the kernel beside others, and puts the program behind the host.
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

func limit(resource int, most uint64) error {
	var current unix.Rlimit
	if err := unix.Getrlimit(resource, &current); err != nil {
		return err
	}
	wanted := lowered(current, most)
	return unix.Setrlimit(resource, &wanted)
}

// lowered is a limit, soft and hard, that is not above the hard one in force.
func lowered(current unix.Rlimit, most uint64) unix.Rlimit {
	most = min(most, current.Max)
	return unix.Rlimit{Cur: most, Max: most}
}
