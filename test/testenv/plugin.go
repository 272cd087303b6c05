package testenv

import (
	"fmt"
	"os"
	"path/filepath"
)

// AddPlugin puts a program into a plugin directory under a file name, as a link where the file system allows it,
// because programs are large. Whoever wants another content there replaces the file, and never writes to it.
func AddPlugin(program, dir, file string) error {
	path := filepath.Join(dir, file)
	if os.Link(program, path) == nil {
		return nil
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("add plugin: %w", err)
	}
	if err := os.WriteFile(path, content, 0o755); err != nil {
		return fmt.Errorf("add plugin: %w", err)
	}
	return nil
}
