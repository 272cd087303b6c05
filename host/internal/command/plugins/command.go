// Package plugins has the commands for plugin authors and operators: pergola plugins.
package plugins

import (
	"github.com/spf13/cobra"
)

// NewCommand returns the command "plugins" of a version of the program.
func NewCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "List, install, publish, verify and develop plugins",
		Long: `List, install, publish, verify and develop plugins.

These commands need neither a host nor a cluster: new writes files, and install, push and pull copy files; the others
start plugins as a host does, and stop them. A running host reports its plugins at /readyz?verbose, in its metrics and
on its status page.`,
	}
	cmd.AddCommand(newListCommand(version), newVerifyCommand(version), newRunCommand(version), newSchemaCommand(),
		newInstallCommand(), newPullCommand(), newPushCommand(), newNewCommand(version))
	return cmd
}
