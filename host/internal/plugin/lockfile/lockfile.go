package lockfile

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// APIVersion of the documents that this package reads and writes.
	APIVersion = "host.pergola.dev/v1alpha1"
	// Kind of the documents that this package reads and writes.
	Kind = "PluginLock"
)

// Mode says what a host does about a plugin that the lock file does not allow. A value that is none of these counts as Require.
type Mode string

const (
	// Require refuses the plugin.
	Require Mode = "require"
	// Warn says so and runs the plugin.
	Warn Mode = "warn"
	// Off does not look.
	Off Mode = "off"
)

// Checks tells whether plugins are compared with the lock file.
func (m Mode) Checks() bool { return m != Off }

// Refuses tells whether a plugin that the lock file does not allow is not run.
func (m Mode) Refuses() bool { return m != Off && m != Warn }

// Plugin is an entry of a lock file: a plugin that may be run.
type Plugin struct {
	// File is the name of the file in the plugin directory.
	File string
	// Name and Version are what the plugin calls itself: a DNS label, and any text of up to 253 bytes.
	Name, Version string
	// Types of deploy items that it claims: 1 to 100, each once; none for a plugin that brings nothing but hooks.
	Types []string
	// HookedTypes are further types of deploy items, others than Types, that its hooks run for: up to 100, each once.
	HookedTypes []string
	// SHA256 of the file.
	SHA256 [32]byte
}

// File is a lock file that was read or is to be written. The zero value allows no plugin. It does not change, so that it may be used
// from several goroutines.
type File struct {
	source  string
	plugins []Plugin // in order of files, and so are the types of each
}

// New makes a lock file that allows these plugins. If they cannot be together in one, because two claim one type, say, the error is an
// *Error with everything that is wrong.
func New(plugins []Plugin) (*File, error) {
	found := &problems{}
	entries := make([]entry, len(plugins))
	for i, plugin := range plugins {
		entries[i] = entry{Plugin: plugin, at: field.NewPath("plugins").Index(i)}
	}
	return build("the lock file to be", entries, found)
}

// entry is a plugin with its place in the document.
type entry struct {
	Plugin
	at *field.Path
}

// build makes a file of entries in which nothing but the problems found is wrong so far.
func build(source string, entries []entry, found *problems) (*File, error) {
	validate(entries, found)
	if len(found.list) > 0 {
		return nil, &Error{Source: source, Problems: found.list, More: found.more}
	}
	file := &File{source: source, plugins: make([]Plugin, len(entries))}
	for i, e := range entries {
		file.plugins[i] = e.Plugin
		file.plugins[i].Types = slices.Sorted(slices.Values(e.Types))
		file.plugins[i].HookedTypes = slices.Sorted(slices.Values(e.HookedTypes))
	}
	slices.SortFunc(file.plugins, func(a, b Plugin) int { return cmp.Compare(a.File, b.File) })
	return file, nil
}

// Plugins returns what may be run, in order of files. It belongs to the caller.
func (f *File) Plugins() []Plugin {
	plugins := slices.Clone(f.plugins)
	for i := range plugins {
		plugins[i].Types = slices.Clone(plugins[i].Types)
		plugins[i].HookedTypes = slices.Clone(plugins[i].HookedTypes)
	}
	return plugins
}

const header = "# The plugins that a host may run. `pergola plugins lock` wrote this and brings it up to date; a signature ends with any change.\n"

// Marshal returns the text of the file. The same plugins give the same bytes.
func (f *File) Marshal() []byte {
	out := []byte(header)
	out = fmt.Appendf(out, "apiVersion: %s\nkind: %s\nplugins:", APIVersion, Kind)
	if len(f.plugins) == 0 {
		return append(out, " []\n"...)
	}
	for _, p := range f.plugins {
		// Everything is quoted: no parser must take a version for a number. What Go escapes in valid UTF-8, YAML reads.
		out = fmt.Appendf(out, "\n- file: %q\n  name: %q\n  version: %q\n  types:%s", p.File, p.Name, p.Version, marshalList(p.Types))
		if len(p.HookedTypes) > 0 {
			out = fmt.Appendf(out, "\n  hookedTypes:%s", marshalList(p.HookedTypes))
		}
		out = fmt.Appendf(out, "\n  sha256: \"%x\"", p.SHA256)
	}
	return append(out, '\n')
}

func marshalList(texts []string) string {
	if len(texts) == 0 {
		return " []"
	}
	var out strings.Builder
	for _, text := range texts {
		out.WriteString("\n  - " + strconv.Quote(text))
	}
	return out.String()
}

// Write writes the file to a path, all or nothing, readable by everybody. A signature that lies beside it is not that of the new text.
func (f *File) Write(path string) (err error) {
	next, err := os.CreateTemp(filepath.Dir(path), ".plugins.lock-*")
	if err != nil {
		return fmt.Errorf("write lock file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = next.Close()           // a second time, maybe; the cause is known
			_ = os.Remove(next.Name()) // nobody looks for it
			err = fmt.Errorf("write lock file: %w", err)
		}
	}()
	if _, err = next.Write(f.Marshal()); err != nil {
		return err
	}
	if err = next.Chmod(0o644); err != nil {
		return err
	}
	if err = next.Sync(); err != nil {
		return err
	}
	if err = next.Close(); err != nil {
		return err
	}
	return os.Rename(next.Name(), path)
}

// parseSum reads a checksum in the one form in which it is written.
func parseSum(text string) (sum [32]byte, ok bool) {
	if len(text) != 2*len(sum) || strings.ToLower(text) != text {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(text))
	return sum, err == nil
}
