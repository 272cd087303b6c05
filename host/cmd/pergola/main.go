// Command pergola is the Pergola host and what an operator needs around it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "0.0.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(displayName(os.Args[0])).ExecuteContext(ctx)
	stop()
	os.Exit(conclude(os.Stderr, err))
}

// ownName is what the command is called, unless it is a plugin of kubectl.
const ownName = "pergola"

// displayName is how people call the program of this name.
func displayName(program string) string {
	if strings.TrimSuffix(filepath.Base(program), ".exe") == "kubectl-"+ownName {
		return "kubectl " + ownName
	}
	return ownName
}

func newCommand(name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:           ownName,
		Short:         "Deploy things through Kubernetes with deployers that anyone can plug in",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
	}
	cmd.AddCommand(newHostCommand(), newPluginsCommand(), newItemsCommand(), newCRDsCommand(), newCleanupCommand(),
		newConfigCommand(), newVersionCommand())
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultCompletionCmd()
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return failing(err) })
	finish(cmd, name)
	return cmd
}

// newVersionCommand does what --version does.
func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printText(cmd.OutOrStdout(), fmt.Sprintf("%s version %s\n", cmd.Root().DisplayName(), version))
		},
	}
}

// arguments wants one argument at least and so many at most, and calls them what the usage of the command does.
func arguments(most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, expected, _ := strings.Cut(cmd.Use, " ")
		switch {
		case len(args) == 0:
			return fmt.Errorf("expected %s, but found nothing; see %q", expected, cmd.CommandPath()+" --help")
		case len(args) > most:
			return fmt.Errorf("expected %s, but found %d arguments: %q", expected, len(args), args)
		default:
			return nil
		}
	}
}

// finish gives a command and those below it what all have in common: nonsense is refused, and the examples are for the
// name that the program was called by.
func finish(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "  "+ownName+" ", "  "+name+" ")
	if !cmd.HasSubCommands() {
		addCompletion(cmd)
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error { return failing(check(cmd, args)) }
		}
		return
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = noSuchCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, below := range cmd.Commands() {
		finish(below, name)
	}
}

// noSuchCommand refuses what is none of the commands below one.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	advice := "--help lists those that there are"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		advice = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return failing(fmt.Errorf("there is no command %q; %s", cmd.CommandPath()+" "+args[0], advice))
}

// The exit codes beside 0. docs/deploy-items.md says what they mean for each command.
const (
	// exitNo: the answer is no, such as for an item that has failed; or an error of a command that has no code of its
	// own for that.
	exitNo = 1
	// exitFailure: the command was called in a wrong way, or could not do what it is for. Those of items tell it from
	// exitNo.
	exitFailure = 2
	// exitTimeout: what was waited for has not come in time.
	exitTimeout = 3
)

// exitError ends a command with another exit code than 1.
type exitError struct {
	code int
	err  error // what to tell; nil for nothing
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// failing has an error end the command with exitFailure, unless it has a code of its own.
func failing(err error) error {
	if exit := (*exitError)(nil); err == nil || errors.As(err, &exit) {
		return err
	}
	return &exitError{code: exitFailure, err: err}
}

// conclude tells what has gone wrong, and returns the exit code.
func conclude(out io.Writer, err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		report(out, err)
		return exitNo
	case exit.err != nil:
		report(out, err)
	}
	return exit.code
}

// report prints an error, or each of several that were joined.
func report(out io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		_, _ = fmt.Fprintln(out, "error:", strings.TrimSuffix(line, "\n")) // there is nobody else to tell
	}
}
