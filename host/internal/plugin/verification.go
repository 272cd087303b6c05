package plugin

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// Verification says which programs may be run. The zero value allows all.
type Verification struct {
	// Mode says what is done about a plugin that the lock file does not allow; empty for off.
	Mode lockfile.Mode
	// LockFile is the path of the lock file. Required unless the mode is off.
	LockFile string
	// Keys are those that the lock file may be signed with; none if it need not be signed.
	Keys []lockfile.PublicKey
}

// verification is a Verification at work. The lock file is read when the host starts and when plugins are reloaded, not in between.
type verification struct {
	Verification

	mu   sync.Mutex
	lock *lockfile.File
	err  error // why there is none
}

func newVerification(v Verification) *verification {
	if v.Mode == "" {
		v.Mode = lockfile.Off
	}
	out := &verification{Verification: v}
	out.load()
	return out
}

// load reads the lock file anew. One that cannot be used allows nothing.
func (v *verification) load() {
	if !v.Mode.Checks() {
		return
	}
	lock, err := lockfile.Load(v.LockFile, v.Keys)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lock, v.err = lock, err
}

// entries are those of the lock file; none without one.
func (v *verification) entries() []lockfile.Plugin {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lock == nil {
		return nil
	}
	return v.lock.Plugins()
}

// warnOfUnusedLock tells of a lock file that somebody has put beside the plugins and that nobody looks at.
func (s *Set) warnOfUnusedLock() {
	path := filepath.Join(s.dir, plugindir.LockFile)
	if _, err := os.Stat(path); s.dir != "" && err == nil && !s.settings.verification.Mode.Checks() {
		s.log.Warn("there is a lock file, but the host configuration names none in pluginVerification.lockFile: plugins are not compared with it", "lockFile", path)
	}
}

// judge asks what speaks against a plugin by the lock file. The error is that answer, or that there is no lock file; where the mode only
// warns it goes to the log.
func (v *verification) judge(log *slog.Logger, against func(*lockfile.File) error) error {
	if !v.Mode.Checks() {
		return nil
	}
	v.mu.Lock()
	lock, err := v.lock, v.err
	v.mu.Unlock()
	if err == nil {
		err = against(lock)
	}
	if err != nil && !v.Mode.Refuses() {
		log.Warn("plugin would be refused if verification were required", "error", err.Error())
		return nil
	}
	return err
}
