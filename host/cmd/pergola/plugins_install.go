package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

// pluginMode lets everybody run a plugin, and nobody write it: a host runs no file that others may write.
const pluginMode = 0o555

func newPluginsInstallCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "install --to DIR [NAME=]FILE...",
		Short: "Copy plugins into a plugin directory",
		Long: `Copy plugins into a plugin directory, each under its own name or as NAME, in the place of one that is there. A host
never sees half a file. "pergola plugins reload" has it use them.

It is for init containers, in images that have no other program to copy with, and for volumes whose files cannot be
run where they are, such as those made of images.`,
		Example: `  pergola plugins install --to /plugins bin/plugins/helm
  pergola plugins install --to /plugins helm=helm-deployer-v2`,
		Args: arguments(1, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs []error
			for _, arg := range args {
				errs = append(errs, installPlugin(cmd.OutOrStdout(), dir, arg))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&dir, "to", defaultPluginDir, "plugin directory")
	return cmd
}

// installPlugin copies what an argument names, and says so.
func installPlugin(out io.Writer, dir, arg string) error {
	name, file, found := strings.Cut(arg, "=")
	if !found || strings.Contains(name, "/") {
		name, file = filepath.Base(arg), arg
	}
	if name == "" || strings.HasPrefix(name, ".") {
		return fmt.Errorf("install plugin %s: expected the name of a file that is not hidden, as hosts pass over those, but found %q", file, name)
	}
	if name == lockName || name == lockName+".minisig" {
		return fmt.Errorf("install plugin %s: expected the name of a plugin, but a host takes %s for the list of the plugins that it may run; choose another name", file, name)
	}
	target := filepath.Join(dir, name)
	if err := copyPlugin(file, dir, target); err != nil {
		return fmt.Errorf("install plugin %s as %s: %w", file, target, err)
	}
	return printText(out, fmt.Sprintf("%s is installed as %s\n", file, target))
}

// copyPlugin copies a file to another place in a directory, so that whoever looks there finds what was there before, or all of the file.
func copyPlugin(file, dir, target string) error {
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // it was only read
	if info, err := source.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, errors.New("expected a file, but it is none"))
	}
	hidden, err := os.CreateTemp(dir, ".install-")
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the plugin directory is not there; create it, or mount a volume there: %w", err)
	}
	if err != nil {
		return fmt.Errorf("%w; user %d, who this is, must be able to write the directory", err, os.Geteuid())
	}
	_, err = io.Copy(hidden, source)
	if err == nil {
		err = hidden.Chmod(pluginMode)
	}
	if err == nil {
		err = hidden.Sync() // or else a crash of the machine may leave an empty file of the right name
	}
	if err = errors.Join(err, hidden.Close()); err == nil {
		err = os.Rename(hidden.Name(), target)
	}
	if err != nil {
		return errors.Join(err, os.Remove(hidden.Name()))
	}
	return nil
}
