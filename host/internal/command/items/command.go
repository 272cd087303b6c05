// Package items has the commands for users of DeployItems: pergola items.
package items

import (
	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/command/validate"
)

// NewCommand returns the command "items" of a version of the program.
func NewCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "items",
		Short: "Inspect, wait for and operate on DeployItems",
		Long: `Inspect, wait for and operate on DeployItems.

The commands use your own kubeconfig and your own rights, as kubectl does, and need no host.`,
	}
	cmd.AddCommand(newListCommand(version), newShowCommand(version), newTreeCommand(version), newWaitCommand(version),
		newTriggerCommand(version), newAbortCommand(version), newForceCommand(version), newPauseCommand(version),
		newResumeCommand(version), newMoveCommand(version), newDiffCommand(version), newOrphansCommand(version),
		validate.NewCommand(version))
	for _, below := range cmd.Commands() {
		run := below.RunE
		below.RunE = func(cmd *cobra.Command, args []string) error { return usercluster.WithCode(run(cmd, args)) }
		addCompletion(below, version)
	}
	return cmd
}
