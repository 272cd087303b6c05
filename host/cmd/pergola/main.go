// Command pergola is the host of Pergola, and the tool of its operators, users and plugin authors.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/host"
	"github.com/pergola-deploy/pergola/host/internal/command/items"
	"github.com/pergola-deploy/pergola/host/internal/command/migrate"
	"github.com/pergola-deploy/pergola/host/internal/command/plugins"
	"github.com/pergola-deploy/pergola/host/internal/command/removal"
)

// version is set by the linker.
var version = "0.0.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(displayName(os.Args[0])).ExecuteContext(ctx)
	stop()
	os.Exit(cli.Conclude(os.Stderr, err))
}

// displayName returns the name for users of a program file.
func displayName(program string) string {
	if strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl-"+cli.Name {
		return "kubectl " + cli.Name
	}
	return cli.Name
}

func newCommand(displayName string) *cobra.Command {
	return cli.NewRoot(displayName, version, host.NewCommand(version), plugins.NewCommand(version),
		items.NewCommand(version), host.NewCRDsCommand(version), host.NewCleanupCommand(version),
		removal.NewCommand(version), migrate.NewCommand(version), host.NewConfigCommand(version), newVersionCommand())
}

// newVersionCommand returns the command "version", an alias of --version.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.PrintText(cmd.OutOrStdout(), fmt.Sprintf("%s version %s\n", cmd.Root().DisplayName(), version))
		},
	}
}
