package host

import (
	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/config"
)

// NewConfigCommand returns the command "config".
func NewConfigCommand(string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Validate the configuration of a host",
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Validate a HostConfiguration file",
		Long: `Validate a HostConfiguration file. Neither a host nor a cluster is needed.

Each problem has a line, and the exit code is 1 if there are any. The field "config" of a plugin is validated by the
plugin: see "pergola plugins verify DIR --config FILE".`,
		Example: `  pergola config check host.yaml`,
		Args:    cli.Arguments(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := config.Load(args[0], settings.DefaultIdentity()); err != nil {
				return err
			}
			return cli.PrintText(cmd.OutOrStdout(), args[0]+" is a HostConfiguration that a host can use\n")
		},
	})
	return cmd
}
