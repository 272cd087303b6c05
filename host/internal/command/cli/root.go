package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Name is the name of the program, also where kubectl runs it as a plugin.
const Name = "pergola"

// NewRoot returns the root command with the given commands. displayName is the name in usages and examples.
func NewRoot(displayName, version string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:           Name,
		Short:         "Deploy through Kubernetes with deployers as plugins",
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: displayName},
	}
	root.AddCommand(commands...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Failing(err) })
	finish(root, displayName)
	return root
}

// Arguments requires between one and so many arguments. Its errors name the arguments as the usage of the command does.
func Arguments(most int) cobra.PositionalArgs {
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

// finish sets the defaults of a command and its subcommands: exit codes of wrong usage, completion, and the display
// name in examples.
func finish(cmd *cobra.Command, displayName string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "  "+Name+" ", "  "+displayName+" ")
	if !cmd.HasSubCommands() {
		completeChoices(cmd)
		if check := cmd.Args; check != nil {
			cmd.Args = func(cmd *cobra.Command, args []string) error { return Failing(check(cmd, args)) }
		}
		return
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = refuseUnknownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, below := range cmd.Commands() {
		finish(below, displayName)
	}
}

// refuseUnknownCommand suggests commands with a similar name.
func refuseUnknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	advice := "--help lists all commands"
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		advice = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return Failing(fmt.Errorf("there is no command %q; %s", cmd.CommandPath()+" "+args[0], advice))
}
