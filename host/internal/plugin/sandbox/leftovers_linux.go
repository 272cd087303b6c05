package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leftoversTime bounds the end of killed processes.
	leftoversTime = 5 * time.Second
	// leftoversPause is the time between two looks at them.
	leftoversPause = 5 * time.Millisecond
)

// programs are the programs between Start and Clean.
var programs = struct {
	sync.Mutex
	running map[int]bool
}{running: map[int]bool{}}

// Start starts a program in a session of its own. Clean must follow its end, and ends all of its descendants, in any
// group or session.
//
// The program is the parent of orphans among its descendants, since its launcher makes it a subreaper, and this process
// is the parent of the program's orphans. So an unknown child of this process was left by an ended program.
func Start(cmd *exec.Cmd) error {
	programs.Lock() // a program during its start must not be taken for an orphan
	defer programs.Unlock()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphans: %w", err)
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	programs.running[cmd.Process.Pid] = true
	return nil
}

// Clean kills the descendants of a program of Start after its end, and returns after their end.
func Clean(cmd *exec.Cmd) error {
	programs.Lock()
	delete(programs.running, cmd.Process.Pid)
	programs.Unlock()
	for deadline := time.Now().Add(leftoversTime); ; time.Sleep(leftoversPause) {
		left, err := killOrphans()
		switch {
		case err != nil || len(left) == 0:
			return err
		case time.Now().After(deadline):
			return fmt.Errorf("the processes %v do not end although they were killed", left)
		}
	}
}

// killOrphans kills the orphans of this process, and returns their process ids; their own children are orphans the next
// time. An ended one stays visible until the wait for it here, so that none escapes between two looks by starting
// another and ending.
func killOrphans() ([]int, error) {
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, fmt.Errorf("find own session: %w", err)
	}
	programs.Lock()
	defer programs.Unlock()
	var found []int
	err = eachProcess(func(p processStat) {
		// Other children of this process stay in its session.
		if p.parent == os.Getpid() && p.session != session && !programs.running[p.id] {
			found = append(found, p.id)
		}
	})
	for _, id := range found {
		if killErr := unix.Kill(id, unix.SIGKILL); killErr != nil {
			err = errors.Join(err, fmt.Errorf("kill process %d, left behind by a program: %w", id, killErr))
		}
		_, _ = unix.Wait4(id, nil, unix.WNOHANG, nil) // the next look shows whether it has ended
	}
	return found, err
}
