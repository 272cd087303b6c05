package plugin

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// discover returns the plugins among the files of the plugin directory, in the order of names: configured or
// executable, and not hidden. passed are the other ones, such as a README, a backup copy or lost+found, without hidden
// ones.
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
		files = append(files, name) // an unreadable one is refused later, with the reason
	}
	return files, passed, nil
}
