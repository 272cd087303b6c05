package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

func newPluginsInstallCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "install --to DIR [NAME=]FILE...",
		Short: "Copy plugins into a plugin directory",
		Long: `Copy plugins into a plugin directory, each under its own name or as NAME, in the place of one that is there. A host
never sees half a file. Restart the host to use them.

It is for init containers, in images that have no other program to copy with, and for volumes whose files cannot be
run where they are, such as those made of images.`,
		Example: `  pergola plugins install --to /plugins bin/plugins/helm
  pergola plugins install --to /plugins helm=helm-deployer-v2`,
		Args: arguments(math.MaxInt),
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
	path, err := plugindir.Install(file, dir, name)
	if err != nil {
		return fmt.Errorf("install plugin %s into %s: %w", file, dir, err)
	}
	return printText(out, fmt.Sprintf("%s is installed as %s\n", file, path))
}

func newPluginsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "See, install, push, pull, check and try the plugins of a host, and begin one of your own",
		Long: `See, install, push, pull, check and try the plugins of a host, and begin one of your own.

These commands need neither a host nor a cluster: new writes files, and install, push and pull copy them; the others
start plugins themselves, as a host does, and end them. A running host tells of its plugins at /readyz?verbose, in its
metrics and on its status page.`,
	}
	cmd.AddCommand(newPluginsListCommand(), newPluginsVerifyCommand(), newPluginsRunCommand(), newPluginsSchemaCommand(),
		newPluginsInstallCommand(), newPluginsPullCommand(), newPluginsPushCommand(), newPluginsNewCommand())
	return cmd
}
