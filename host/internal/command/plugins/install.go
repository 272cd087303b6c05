package plugins

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
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
			var errs []error
			for _, arg := range args {
				errs = append(errs, installPlugin(cmd.OutOrStdout(), dir, arg))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&dir, "to", settings.PluginDir(), "plugin directory")
	return cmd
}

// installPlugin copies the plugin of an argument and reports the copy.
func installPlugin(out io.Writer, dir, arg string) error {
	name, file, found := strings.Cut(arg, "=")
	if !found || strings.Contains(name, "/") {
		name, file = filepath.Base(arg), arg
	}
	path, err := plugindir.Install(file, dir, name)
	if err != nil {
		return fmt.Errorf("install plugin %s into %s: %w", file, dir, err)
	}
	return cli.PrintText(out, fmt.Sprintf("%s is installed as %s\n", file, path))
}
