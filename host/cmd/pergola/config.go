package main

import (
	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration of a host",
	}
	cmd.AddCommand(newConfigCheckCommand())
	return cmd
}

func newConfigCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a HostConfiguration as a host does that starts with it",
		Long: `Check a HostConfiguration as a host does that starts with it. Neither a host nor a cluster is needed.

There is a line for everything that is wrong, and the exit code is 1 then. What "config" of a plugin holds is the
plugin's own affair, and "pergola plugins verify DIR --config FILE" checks it.`,
		Example: `  pergola config check host.yaml`,
		Args:    arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := config.Load(args[0], defaultIdentity()); err != nil {
				return err
			}
			return printText(cmd.OutOrStdout(), args[0]+" is a HostConfiguration that a host can use\n")
		},
	}
}
