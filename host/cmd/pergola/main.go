// Command pergola is the Pergola host and what an operator needs around it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "0.0.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		report(os.Stderr, err)
		os.Exit(1)
	}
}

// report prints an error, or each of several that were joined.
func report(out io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(out, "error:", strings.TrimSuffix(line, "\n")) // there is nobody else to tell
	}
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "pergola",
		Short:         "Deploy things through Kubernetes with deployers that anyone can plug in",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.AddCommand(newHostCommand(), newPluginsCommand(), newCRDsCommand())
	return cmd
}
