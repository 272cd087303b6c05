package plugin

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// discover lists the files of the plugin directory that are meant to be plugins, in order of names: those that are
// configured, and all others that are executable and not hidden. passed are the others that are not hidden: a directory
// may also hold a README, a backup copy or lost+found.
func discover(dir string, configured func(name string) bool) (files, passed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read plugin directory: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if plugindir.CheckName(name) != nil {
			continue // mounted volumes are full of them
		}
		info, err := os.Stat(filepath.Join(dir, name))
		isNone := err == nil && (info.IsDir() || info.Mode().IsRegular() && info.Mode().Perm()&0o111 == 0)
		if isNone && !configured(name) {
			passed = append(passed, name)
			continue
		}
		files = append(files, name) // what cannot be read is refused, with the reason
	}
	return files, passed, nil
}
