package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// locker writes a lock file.
type locker struct {
	dir, lockFile, runDir string
	local                 localFlags
}

func newPluginsLockCommand() *cobra.Command {
	l := &locker{}
	cmd := &cobra.Command{
		Use:   "lock DIR",
		Short: "Write the lock file: which plugin files may be run",
		Long: `Write the lock file: which plugin files may be run.

Starts each plugin of the directory to learn its name, version and types, and whose items its hooks run for, and
writes them to the lock file with the SHA-256 of its file. If one cannot be started, or two claim the same, nothing is written. Prints what has changed:
look at it before you sign or commit the file.

A host checks the plugins if its HostConfiguration names the file in pluginVerification.lockFile.`,
		Example: `  pergola plugins lock bin/plugins
  minisign -Sm bin/plugins/plugins.lock`,
		Args: arguments(1, 1),
	}
	output := addOutput(cmd.Flags())
	l.local.addTo(cmd.Flags())
	cmd.Flags().StringVar(&l.lockFile, "lock-file", "", "lock file to write; without it "+plugindir.LockFile+" in DIR")
	addRunDir(cmd.Flags(), &l.runDir)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l.dir = args[0]
		if l.lockFile == "" {
			l.lockFile = filepath.Join(l.dir, plugindir.LockFile)
		}
		if filepath.Clean(filepath.Dir(l.lockFile)) == filepath.Clean(l.dir) && filepath.Base(l.lockFile) != plugindir.LockFile {
			return fmt.Errorf("--lock-file: in the plugin directory a lock file is called %s, or it would be taken for a plugin, but found %q", plugindir.LockFile, l.lockFile)
		}
		result, err := l.lock(cmd)
		if err != nil {
			return err
		}
		if output.format == formatJSON {
			return printJSON(cmd.OutOrStdout(), result)
		}
		return printText(cmd.OutOrStdout(), lockText(result))
	}
	return cmd
}

// lockResult says what became of a lock file.
type lockResult struct {
	LockFile string `json:"lockFile"`
	// Plugins is how many are in it.
	Plugins int `json:"plugins"`
	// Changes against the lock file before, in order of files.
	Changes []lockChange `json:"changes"`
	// Unreadable says why there is nothing to compare with; empty if there is, or if there was no lock file.
	Unreadable string `json:"unreadable,omitempty"`
	// SignatureIsStale: the signature beside the lock file is not that of the new text.
	SignatureIsStale bool `json:"signatureIsStale,omitempty"`
}

// lockChange is what has changed with one plugin.
type lockChange struct {
	File string `json:"file"`
	// Change is added, removed or changed.
	Change string `json:"change"`
	// What has changed, or was added, in words.
	What []string `json:"what,omitempty"`
}

// lock writes the lock file.
func (l *locker) lock(cmd *cobra.Command) (*lockResult, error) {
	settings, err := l.local.settings()
	if err != nil {
		return nil, err
	}
	options, err := pluginOptions(settings, l.local.log(cmd.ErrOrStderr()), 0)
	if err != nil {
		return nil, err
	}
	options.Dir, options.Verification = l.dir, plugin.Verification{} // it is made here
	found, err := l.find(cmd.Context(), options)
	if err != nil {
		return nil, err
	}
	next, err := lockfile.New(found)
	if err != nil {
		return nil, err
	}
	return l.write(next)
}

// find starts the plugins and returns what is to be locked.
func (l *locker) find(ctx context.Context, options plugin.Options) (found []lockfile.Plugin, err error) {
	plugins, err := startPlugins(ctx, l.runDir, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plugins.close()) }()
	if err := plugins.settled(ctx); err != nil {
		return nil, err
	}
	details, err := plugins.Details()
	if err != nil {
		return nil, err
	}
	if len(details) == 0 {
		return nil, fmt.Errorf("there are no plugins in %s", l.dir)
	}
	return toLock(details)
}

// toLock are the entries for plugins. The error names each that cannot be locked.
func toLock(details []plugin.Detail) ([]lockfile.Plugin, error) {
	var entries []lockfile.Plugin
	var errs []error
	for _, d := range details {
		if d.Problem != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", d.File, d.Problem))
			continue
		}
		entry := d.Info.LockEntry(d.File)
		sum, err := hex.DecodeString(d.SHA256)
		if err != nil || copy(entry.SHA256[:], sum) != len(entry.SHA256) {
			errs = append(errs, fmt.Errorf("plugin %s: has no checksum", d.File))
		}
		entries = append(entries, entry)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, errors.New("the lock file was not written; each plugin in the directory must run"))
	}
	return entries, nil
}

// write writes the lock file, unless that is what is there: a signature ends with any change.
func (l *locker) write(next *lockfile.File) (*lockResult, error) {
	result := &lockResult{LockFile: l.lockFile, Plugins: len(next.Plugins())}
	text, err := os.ReadFile(l.lockFile)
	var before []lockfile.Plugin
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read the lock file that is to be brought up to date: %w", err)
	case bytes.Equal(text, next.Marshal()):
		return result, nil
	default:
		file, err := lockfile.Parse(l.lockFile, text)
		if err != nil {
			result.Unreadable = err.Error()
			break
		}
		before = file.Plugins()
	}
	result.Changes = lockChanges(before, next.Plugins())
	if err := next.Write(l.lockFile); err != nil {
		return nil, err
	}
	_, err = os.Lstat(l.lockFile + plugindir.SignatureSuffix)
	result.SignatureIsStale = err == nil
	return result, nil
}

// lockChanges tells one lock file from another one, in order of files.
func lockChanges(before, after []lockfile.Plugin) []lockChange {
	changes := []lockChange{}
	old := map[string]lockfile.Plugin{}
	for _, p := range before {
		old[p.File] = p
	}
	for _, p := range after {
		was, known := old[p.File]
		delete(old, p.File)
		switch {
		case !known:
			changes = append(changes, lockChange{p.File, "added", described(p)})
		default:
			if what := differences(was, p); len(what) > 0 {
				changes = append(changes, lockChange{p.File, "changed", what})
			}
		}
	}
	for file := range old {
		changes = append(changes, lockChange{File: file, Change: "removed"})
	}
	slices.SortFunc(changes, func(a, b lockChange) int { return strings.Compare(a.File, b.File) })
	return changes
}

// described has a line for each field of an entry that is not empty.
func described(p lockfile.Plugin) []string {
	var what []string
	for _, field := range fieldsOf(p) {
		if field.value != "" {
			what = append(what, field.name+" "+field.value)
		}
	}
	return what
}

// differences are those between two entries of one file.
func differences(was, is lockfile.Plugin) []string {
	var what []string
	before := fieldsOf(was)
	for i, field := range fieldsOf(is) {
		if field.value != before[i].value {
			what = append(what, fmt.Sprintf("%s %s, was %s", field.name, orNone(field.value), orNone(before[i].value)))
		}
	}
	return what
}

type lockField struct{ name, value string }

// fieldsOf are the fields of an entry as people read them.
func fieldsOf(p lockfile.Plugin) []lockField {
	return []lockField{
		{"name", p.Name},
		{"version", p.Version},
		{"types", strings.Join(p.Types, ", ")},
		{"hooked types of others", strings.Join(p.HookedTypes, ", ")},
		{"sha256", hex.EncodeToString(p.SHA256[:])},
	}
}

func orNone(value string) string {
	if value == "" {
		return "none"
	}
	return value
}

func lockText(r *lockResult) string {
	var out strings.Builder
	if r.Unreadable != "" {
		out.WriteString("The lock file before cannot be read, so everything in the new one counts as added:\n" + terminal.Indented(r.Unreadable))
	}
	for _, change := range r.Changes {
		out.WriteString(change.Change + " " + terminal.Printable(change.File) + "\n" + terminal.Indented(change.What...))
	}
	if len(r.Changes) == 0 && r.Unreadable == "" {
		fmt.Fprintf(&out, "%s is up to date; plugins in it: %d.\n", terminal.Printable(r.LockFile), r.Plugins)
		return out.String()
	}
	fmt.Fprintf(&out, "%s is written; plugins in it: %d.\n", terminal.Printable(r.LockFile), r.Plugins)
	if r.SignatureIsStale {
		fmt.Fprintf(&out, "Its signature %s is that of the text before. Sign it anew: minisign -Sm %s\n",
			terminal.Printable(r.LockFile+plugindir.SignatureSuffix), terminal.Printable(r.LockFile))
	}
	return out.String()
}
