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
	// leftoversTime bounds how long processes may take to end that were killed.
	leftoversTime = 5 * time.Second
	// leftoversPause is between two looks at them.
	leftoversPause = 5 * time.Millisecond
)

// programs are those that this process has started and not cleaned up after.
var programs = struct {
	sync.Mutex
	running map[int]bool
}{running: map[int]bool{}}

// Start starts a program in a session of its own. Whatever process the program starts, in whatever group or session,
// ends with it: Clean must follow its end.
//
// The program gets the orphans among its descendants, since its launcher makes it a subreaper, and this process gets
// those of the program. So a child of this process that it has not started is one that an ended program has left.
func Start(cmd *exec.Cmd) error {
	programs.Lock() // a program that is being started must not be taken for an orphan
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

// Clean kills whatever a program has left behind that Start has started and that has ended. It returns when nothing of
// it runs any more.
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

// killOrphans kills the orphans that this process has got, and returns their process ids; their own children are
// orphans the next time. One that has ended is seen until it is waited for here, so that none escapes between two looks
// by starting another and ending.
func killOrphans() ([]int, error) {
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, fmt.Errorf("find own session: %w", err)
	}
	programs.Lock()
	defer programs.Unlock()
	var found []int
	err = eachProcess(func(p processStat) {
		// What this process starts for itself stays in its session.
		if p.parent == os.Getpid() && p.session != session && !programs.running[p.id] {
			found = append(found, p.id)
		}
	})
	for _, id := range found {
		if killErr := unix.Kill(id, unix.SIGKILL); killErr != nil {
			err = errors.Join(err, fmt.Errorf("kill process %d, which a program has left behind: %w", id, killErr))
		}
		_, _ = unix.Wait4(id, nil, unix.WNOHANG, nil) // the next look shows whether it has ended
	}
	return found, err
}
