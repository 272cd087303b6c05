package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const markDir = "MARK_DIR"

func (s step) count([]string) error {
	dir, err := s.path(statePath)
	if err != nil {
		return err
	}
	file, count := filepath.Join(dir, "count"), 0
	content, err := os.ReadFile(file)
	switch {
	case err == nil:
		if count, err = strconv.Atoi(strings.TrimSpace(string(content))); err != nil {
			return fmt.Errorf("read the count: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the count: %w", err)
	}
	count++
	if err := os.WriteFile(file, []byte(strconv.Itoa(count)), 0o644); err != nil {
		return fmt.Errorf("write the count: %w", err)
	}
	return s.exportJSON(map[string]int{"count": count})
}

// fillState uses random bytes, which no archive makes smaller.
func (s step) fillState(args []string) (err error) {
	bytes, err := size(args[0])
	if err != nil {
		return err
	}
	dir, err := s.path(statePath)
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, "random"))
	if err != nil {
		return fmt.Errorf("fill the state: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := io.CopyN(file, rand.Reader, bytes); err != nil {
		return fmt.Errorf("fill the state: %w", err)
	}
	return nil
}

func (s step) symlinkState(args []string) error {
	dir, err := s.path(statePath)
	if err != nil {
		return err
	}
	return putLink(args[0], filepath.Join(dir, "link"))
}

// putLink makes a link in the place of what is there, such as the link of a former run.
func putLink(target, link string) error {
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %s by a link: %w", link, err)
	}
	if err := os.Symlink(target, link); err != nil {
		return fmt.Errorf("make link: %w", err)
	}
	return nil
}

// mark writes its line at once, so that those of several containers do not mix.
func (s step) mark([]string) (err error) {
	dir := s.env(markDir)
	if dir == "" {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(dir, "marks"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644) //nolint:gosec // tests read it
	if err != nil {
		return fmt.Errorf("open marks: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteString("pod=" + s.env(podName) + " operation=" + s.env(operation) + "\n"); err != nil {
		return fmt.Errorf("write mark: %w", err)
	}
	return nil
}

// size reads a number of bytes.
func size(text string) (int64, error) {
	bytes, err := strconv.ParseInt(text, 10, 64)
	if err != nil || bytes < 0 {
		return 0, fmt.Errorf("%q is no number of bytes", text)
	}
	return bytes, nil
}
