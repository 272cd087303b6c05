// Package host has the commands of operators, and wires the host process.
package host

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
)

// NewCommand returns the command "host" of a version of the program.
func NewCommand(version string) *cobra.Command {
	flags := &hostFlags{}
	cmd := &cobra.Command{
		Use:   "host",
		Short: "Run the host: load deployers from a directory and reconcile DeployItems",
		Long: `Run the host: load deployers from a directory and reconcile DeployItems.

On SIGTERM the host finishes running calls and ends.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := sandbox.Protect(); err != nil {
				return fmt.Errorf("keep plugins from reading the memory of the host: %w", err)
			}
			configured, err := flags.settings(cmd.Flags().Changed, settings.DefaultIdentity())
			if err != nil {
				return err
			}
			if len(flags.attach) > 0 && !cmd.Flags().Changed("plugin-dir") {
				flags.pluginDir = ""
			}
			return cli.WithAdvice(run(cmd.Context(), &launch{flags: flags, settings: configured, version: version}))
		},
	}
	flags.addTo(cmd)
	return cmd
}
