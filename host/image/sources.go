package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
)

// standardLibrary is what scanners call Go's own packages, as if they were a module.
const standardLibrary = "stdlib"

// findSources returns the directories with the sources of modules, by their names. What this machine does not have is fetched.
func findSources(ctx context.Context, modules []debug.Module) (map[string]string, error) {
	sources, others := map[string]string{}, []string(nil)
	for _, m := range modules {
		if m.Path != standardLibrary {
			others = append(others, nameOf(m))
			continue
		}
		root, err := goTool(ctx, "env", "GOROOT")
		if err != nil {
			return nil, fmt.Errorf("find Go's own source: %w", err)
		}
		sources[nameOf(m)] = strings.TrimSpace(string(root))
	}
	if len(others) == 0 { // Go would take that for all modules of the project
		return sources, nil
	}
	list, failed := goTool(ctx, append([]string{"mod", "download", "-json"}, others...)...)
	for found := json.NewDecoder(bytes.NewReader(list)); found.More(); {
		var m struct{ Path, Version, Dir, Error string }
		if err := found.Decode(&m); err != nil {
			return nil, fmt.Errorf("read what modules Go has found: %w", err)
		}
		if m.Error != "" {
			return nil, fmt.Errorf("find the source of module %s@%s: %s", m.Path, m.Version, m.Error)
		}
		sources[m.Path+"@"+m.Version] = m.Dir
	}
	if failed != nil {
		return nil, fmt.Errorf("find the sources of modules: %w", failed)
	}
	return sources, nil
}

// goTool runs Go, and returns what it writes, even if it fails.
func goTool(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "go", args...).Output() //nolint:gosec // the arguments are names of modules
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
