package plugins

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

func newInstallCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "install --to DIR [NAME=]FILE...",
		Short: "Copy plugins into a plugin directory",
		Long: `Copy plugins into a plugin directory, each under its own name or as NAME. Existing plugins of these names are
replaced. A host never sees half a file. Restart the host to use the plugins.

The command is for init containers of images without another program for copies, and for volumes with files that cannot
be executed in place, such as image volumes.`,
		Example: `  pergola plugins install --to /plugins bin/plugins/helm
  pergola plugins install --to /plugins helm=helm-deployer-v2`,
		Args: cli.Arguments(math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			i := installer{out: cmd.OutOrStdout(), dir: dir}
			var errs []error
			for _, arg := range args {
				errs = append(errs, i.install(arg))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&dir, "to", settings.PluginDir(), "plugin directory")
	return cmd
}

// installer installs plugins into a directory.
type installer struct {
	out io.Writer
	dir string
	// installed are the files of the plugins that are installed, and their paths in dir. Several may be one file: the
	// plugins of the image are.
	installed []installed
}

type installed struct {
	file fs.FileInfo
	path string
}

// install installs the plugin of an argument and reports it.
func (i *installer) install(arg string) error {
	name, file, found := strings.Cut(arg, "=")
	if !found || strings.Contains(name, "/") {
		name, file = filepath.Base(arg), arg
	}
	path, err := i.put(file, name)
	if err != nil {
		return fmt.Errorf("install plugin %s into %s: %w", file, i.dir, err)
	}
	return cli.PrintText(i.out, fmt.Sprintf("%s is installed as %s\n", file, path))
}

func (i *installer) put(file, name string) (path string, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("find the program: %w", err)
	}
	same := func(other installed) bool { return os.SameFile(info, other.file) }
	if n := slices.IndexFunc(i.installed, same); n >= 0 {
		return plugindir.Link(i.installed[n].path, i.dir, name)
	}
	if path, err = plugindir.Install(file, i.dir, name); err == nil {
		i.installed = append(i.installed, installed{info, path})
	}
	return path, err
}
