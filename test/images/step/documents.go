package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The variables that the deployer gives to a container. They are written down here once more, since images rely on their names.
const (
	importsPath    = "IMPORTS_PATH"
	exportsPath    = "EXPORTS_PATH"
	statePath      = "STATE_PATH"
	contentPath    = "CONTENT_PATH"
	targetPath     = "TARGET_PATH"
	descriptorPath = "COMPONENT_DESCRIPTOR_PATH"
	operation      = "OPERATION"
	podName        = "POD_NAME"
	podNamespace   = "POD_NAMESPACE"
)

// variables are those that echo-imports always exports.
var variables = []string{importsPath, exportsPath, statePath, contentPath, targetPath, descriptorPath, operation, podName, podNamespace}

// echo is what echo-imports exports. A document that is not there is null, and one that is no JSON is a text.
type echo struct {
	Imports    any    `json:"imports"`
	Operation  string `json:"operation"`
	Target     any    `json:"target"`
	Descriptor any    `json:"descriptor"`
	// Content has files by their paths below the directory, and symbolic links as "-> target"; null if there is no directory.
	Content map[string]string `json:"content"`
	// Env has the variables that are not empty.
	Env map[string]string `json:"env"`
}

func (s step) export(args []string) error { return s.write(exportsPath, []byte(args[0])) }

func (s step) exportJSON(value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write exports: %w", err)
	}
	return s.write(exportsPath, content)
}

func (s step) symlinkExports(args []string) error {
	link, err := s.path(exportsPath)
	if err != nil {
		return err
	}
	return putLink(args[0], link)
}

func (s step) echoImports(names []string) (err error) {
	e := echo{Operation: s.env(operation), Env: map[string]string{}}
	for variable, document := range map[string]*any{importsPath: &e.Imports, targetPath: &e.Target, descriptorPath: &e.Descriptor} {
		if *document, err = s.document(variable); err != nil {
			return err
		}
	}
	if e.Content, err = s.content(); err != nil {
		return err
	}
	for _, name := range append(names, variables...) {
		if value := s.env(name); value != "" {
			e.Env[name] = value
		}
	}
	return s.exportJSON(e)
}

func (s step) document(variable string) (any, error) {
	path := s.env(variable)
	if path == "" {
		return nil, nil //nolint:nilnil // null says that there is no document
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", variable, err)
	}
	if !json.Valid(content) {
		return string(content), nil
	}
	return json.RawMessage(content), nil
}

func (s step) content() (map[string]string, error) {
	root := s.env(contentPath)
	if root == "" {
		return nil, nil //nolint:nilnil // null says that there is no content
	}
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // as above
	}
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			files[name] = "-> " + target
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // nobody else writes there
		files[name] = string(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	return files, nil
}

// path returns the value of a variable that names a path, and must be there.
func (s step) path(variable string) (string, error) {
	path := s.env(variable)
	if path == "" {
		return "", fmt.Errorf("%s is not set", variable)
	}
	return path, nil
}

func (s step) write(variable string, content []byte) error {
	path, err := s.path(variable)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o644); err != nil { //nolint:gosec // the environment is the test's
		return fmt.Errorf("write %s: %w", variable, err)
	}
	return nil
}
