// Package items has the commands for users of DeployItems: pergola items.
package items

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
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
		below.RunE = func(cmd *cobra.Command, args []string) error { return withCode(run(cmd, args)) }
		addCompletion(below, version)
	}
	return cmd
}

// withCode gives an error its exit code, and advice about rights and definitions. An error with a code is complete.
func withCode(err error) error {
	if exit := (*cli.ExitError)(nil); errors.As(err, &exit) {
		return err
	}
	return cli.Failing(withRights(cli.WithAdvice(err)))
}
