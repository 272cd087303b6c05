package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

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

// programFile is a plugin's file in the plugin directory. It is opened once, hashed, and held open: each start executes what was hashed,
// and not what somebody has put in its place since.
type programFile struct {
	dir, file string
	profile   Profile
	settings  *settings
	log       *slog.Logger

	mu     sync.Mutex
	opened *program.Program // nil before the first start
	digest [sha256.Size]byte
}

var _ source = (*programFile)(nil)

func (f *programFile) start(ctx context.Context) (*process, error) {
	opened, err := f.open()
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return nil, err // which says nothing about the plugin
	}
	if err != nil {
		return nil, refusal(err)
	}
	if err := f.verify(); err != nil {
		return nil, refusal(err)
	}
	return launch(ctx, opened, f.profile, f.settings, f.log)
}

// open opens the file the first time, and checks afterwards that it has not been changed in place.
func (f *programFile) open() (*program.Program, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	opened := f.opened
	if opened == nil {
		var err error
		if opened, err = program.Open(f.dir, f.file); err != nil {
			return nil, err
		}
	}
	sum, err := opened.Sum()
	switch {
	case f.opened == nil && err != nil:
		return nil, errors.Join(err, opened.Close())
	case err != nil:
		return nil, err
	case f.opened != nil && sum != f.digest:
		return nil, errors.New("was changed since it was loaded; restart the host to use it as it is now")
	}
	f.opened, f.digest = opened, sum
	return opened, nil
}

// verify compares a program with its checksum in the host configuration, if there has to be one.
func (f *programFile) verify() error {
	return checkSum(f.file, f.profile, f.settings.requireSums, f.digest[:])
}

func (f *programFile) check(info *Info) error { return f.settings.profiles.check(f.file, info.Name) }

func (f *programFile) sum() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened == nil {
		return ""
	}
	return hex.EncodeToString(f.digest[:])
}

func (f *programFile) attached() bool { return false }

func (f *programFile) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.opened != nil {
		_ = f.opened.Close() // it was only read
		f.opened = nil
	}
}
