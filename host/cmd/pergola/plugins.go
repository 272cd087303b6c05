package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pergola-deploy/pergola/host/internal/terminal"
)

func newPluginsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "See, install, lock, check and try the plugins of a host",
		Long: `See, install, lock, check and try the plugins of a host.

These commands need neither a host nor a cluster: install copies files; the others start plugins themselves, as a
host does, and end them. A running host tells of its plugins at /readyz?verbose, in its metrics and on its status page.`,
	}
	cmd.AddCommand(newPluginsListCommand(), newPluginsVerifyCommand(),
		newPluginsRunCommand(), newPluginsSchemaCommand(), newPluginsInstallCommand())
	return cmd
}

// format is how a command prints what it has to say.
type format string

// The formats.
const (
	formatText format = "text"
	formatWide format = "wide"
	formatJSON format = "json"
	formatYAML format = "yaml"
	formatName format = "name"
)

// outputFlag is the flag for a format.
type outputFlag struct {
	format  format
	allowed []format
}

var _ pflag.Value = (*outputFlag)(nil)

// addOutput adds the flag. Text and JSON are always allowed.
func addOutput(flags *pflag.FlagSet, more ...format) *outputFlag {
	o := &outputFlag{format: formatText, allowed: append([]format{formatText, formatJSON}, more...)}
	flags.VarP(o, "output", "o", "how to print: "+alternatives(o.allowed))
	return o
}

// Set implements pflag.Value.
func (o *outputFlag) Set(text string) error {
	for _, allowed := range o.allowed {
		if format(text) == allowed {
			o.format = allowed
			return nil
		}
	}
	return fmt.Errorf("expected %s", alternatives(o.allowed))
}

// String implements pflag.Value.
func (o *outputFlag) String() string { return string(o.format) }

// Type implements pflag.Value.
func (o *outputFlag) Type() string { return "format" }

// alternatives lists formats as a sentence does.
func alternatives(formats []format) string {
	text := ""
	for i, f := range formats {
		switch {
		case i == 0:
		case i == len(formats)-1:
			text += " or "
		default:
			text += ", "
		}
		text += string(f)
	}
	return text
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// addColour adds the flag that says when to paint.
func addColour(flags *pflag.FlagSet) *terminal.When {
	when := terminal.Auto
	flags.Var(&when, "color", "when to paint: auto (on a terminal), always or never")
	return &when
}

// printText prints a text as a whole.
func printText(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
