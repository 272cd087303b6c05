package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin/program"
	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// discover lists the files of the plugin directory in order of names. Hidden files are passed over, because mounted volumes are full of
// them; everything else is meant to be a plugin.
func discover(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read plugin directory: %w", err)
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		if plugindir.CheckName(name) == nil {
			files = append(files, name)
		}
	}
	return files, nil
}

// programFile is a plugin's file in the plugin directory. Its process is started from the file as it was when the plugin was started
// first or reloaded: one that somebody puts in its place is not picked up by a restart.
type programFile struct {
	dir, file string
	profile   Profile
	settings  *settings
	log       *slog.Logger

	mu     sync.Mutex
	opened *program.Program
	facts  facts // of the file when it was opened
	// before is what was open before a fresh start, until it is settled which of the two is used.
	before      *program.Program
	beforeFacts facts
}

var _ source = (*programFile)(nil)

// facts tell one state of a file from another one: what is cheap to know, and what counts if that differs.
type facts struct {
	info     fs.FileInfo
	size     int64
	modified time.Time
	sum      [sha256.Size]byte
}

func factsOf(info fs.FileInfo) facts {
	return facts{info: info, size: info.Size(), modified: info.ModTime()}
}

func (f facts) same(other facts) bool {
	return f.info != nil && other.info != nil && os.SameFile(f.info, other.info) && f.size == other.size && f.modified.Equal(other.modified)
}

func (f *programFile) start(ctx context.Context, fresh bool) (*process, error) {
	opened, err := f.open(fresh)
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return nil, err // which says nothing about the plugin
	}
	if err != nil {
		return nil, refusal(err)
	}
	if err := f.verify(opened); err != nil {
		return nil, refusal(err)
	}
	return launch(ctx, opened, f.profile, f.settings, f.log)
}

// open opens the file, unless it is open and has not to be fresh. An open one must not have changed: what was checked is what is run.
// Nobody but the supervisor opens and closes.
func (f *programFile) open(fresh bool) (*program.Program, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened != nil && !fresh {
		info, err := f.opened.File.Stat()
		if err != nil {
			return nil, fmt.Errorf("cannot be examined: %w", err)
		}
		if f.facts.same(factsOf(info)) {
			return f.opened, nil
		}
		// Whoever may do no more than to set the times of a file must not be able to stop it.
		sum, err := f.opened.Sum()
		if err != nil {
			return nil, err
		}
		if sum != f.facts.sum {
			return nil, errors.New("was changed since it was loaded; reload the plugins to use it as it is now")
		}
		f.facts = factsOf(info)
		f.facts.sum = sum
		return f.opened, nil
	}
	opened, err := program.Open(f.dir, f.file)
	if err != nil {
		return nil, err
	}
	info, err := opened.File.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot be examined: %w", err), opened.Close())
	}
	sum, err := opened.Sum()
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	f.before, f.beforeFacts = f.opened, f.facts
	f.opened, f.facts = opened, factsOf(info)
	f.facts.sum = sum
	return opened, nil
}

func (f *programFile) settle(used bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before == nil {
		return
	}
	if !used {
		f.opened, f.before = f.before, f.opened
		f.facts = f.beforeFacts
	}
	_ = f.before.Close() // it was only read
	f.before = nil
}

// verify compares a program with its checksum in the host configuration, and reads it only if there is one to compare.
func (f *programFile) verify(opened *program.Program) error {
	if f.profile.SHA256 == "" && !f.settings.requireSums {
		return nil
	}
	sum, err := opened.Sum()
	if err != nil {
		return err
	}
	return checkSum(f.file, f.profile, f.settings.requireSums, sum[:])
}

func (f *programFile) vouch(info *Info) error { return f.settings.profiles.check(f.file, info.Name) }

func (f *programFile) changed() bool {
	info, err := os.Stat(filepath.Join(f.dir, f.file))
	f.mu.Lock()
	known := f.facts
	f.mu.Unlock()
	if err == nil && known.same(factsOf(info)) {
		return false
	}
	now, err := program.Open(f.dir, f.file)
	if err != nil {
		return true
	}
	defer func() { _ = now.Close() }() // it was only read
	sum, err := now.Sum()
	return err != nil || sum != known.sum
}

// sum is the checksum of what was loaded.
func (f *programFile) sum() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened == nil {
		return "", nil
	}
	sum, err := f.opened.Sum()
	return hex.EncodeToString(sum[:]), err
}

func (f *programFile) attached() bool { return false }

func (f *programFile) close() {
	f.settle(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closeOpened()
}

func (f *programFile) closeOpened() {
	if f.opened != nil {
		_ = f.opened.Close() // it was only read
		f.opened = nil
	}
}
