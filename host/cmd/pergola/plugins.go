package main

import "github.com/spf13/cobra"

func newPluginsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "See, install, lock, check and try the plugins of a host",
		Long: `See, install, lock, check and try the plugins of a host.

These commands need neither a host nor a cluster: install copies files; the others start plugins themselves, as a
host does, and end them. A running host tells of its plugins at /readyz?verbose, in its metrics and on its status page.`,
	}
	cmd.AddCommand(newPluginsListCommand(), newPluginsVerifyCommand(),
		newPluginsRunCommand(), newPluginsSchemaCommand(), newPluginsInstallCommand())
	return cmd
}
