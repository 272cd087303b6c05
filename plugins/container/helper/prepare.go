package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// initialize makes what the image finds when it starts, and finds out whether there is a way for what it will leave.
func initialize(base string, log *slog.Logger) error {
	if err := prepare(base); err != nil {
		return err
	}
	server, err := connect(filepath.Join(base, layout.Access), log)
	if err != nil {
		return err
	}
	return server.reach()
}

// prepare makes what the image finds when it starts.
func prepare(base string) error {
	syscall.Umask(0o022) // the image may run as another user, and has to read all of it
	shared := filepath.Join(base, layout.Shared)
	if err := os.MkdirAll(shared, 0o755); err != nil { //nolint:gosec // as above
		return fmt.Errorf("make directory: %w", err)
	}
	root, err := os.OpenRoot(shared)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing depends on it
	for _, dir := range []string{
		path.Dir(layout.Imports), path.Dir(layout.Exports), path.Dir(layout.Target), layout.Content, layout.State,
	} {
		if err := root.MkdirAll(inShared(dir), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if found, err := unpack(filepath.Join(base, layout.Input), root, "."); err != nil {
		return fmt.Errorf("unpack the input: %w", err)
	} else if !found {
		return fmt.Errorf("unpack the input: there is no file %s in %s",
			layout.ChunkFile(0), filepath.Join(base, layout.Input))
	}
	if _, err := unpack(filepath.Join(base, layout.OldState), root, inShared(layout.State)); err != nil {
		return fmt.Errorf("unpack the state of the last run: %w", err)
	}
	return nil
}

// unpack unpacks the archive whose chunks are in a directory into a directory of the root, if there are any.
func unpack(chunks string, root *os.Root, dir string) (found bool, err error) {
	var all [][]byte
	for {
		chunk, err := os.ReadFile(filepath.Join(chunks, layout.ChunkFile(len(all)))) //nolint:gosec // a flag says where
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return false, fmt.Errorf("read chunk: %w", err)
		}
		all = append(all, chunk)
	}
	if len(all) == 0 {
		return false, nil
	}
	return true, archive.Unpack(archive.Join(all), root, dir)
}

// inShared is where a path of layout is in what the containers share.
func inShared(name string) string { return strings.TrimPrefix(name, layout.Shared+"/") }
