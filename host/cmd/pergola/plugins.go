package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newPluginsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "See, reload, lock, check and try the plugins of a host",
		Long: `See, reload, lock, check and try the plugins of a host.

list and reload talk to a host that runs on this machine, as the same user: in its container, say. lock, verify
and run need neither a host nor a cluster; they start plugins themselves, as a host does, and end them.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newPluginsListCommand(), newPluginsReloadCommand(), newPluginsLockCommand(), newPluginsVerifyCommand(), newPluginsRunCommand())
	return cmd
}

// format is how a command prints what it has to say.
type format string

// The formats.
const (
	formatText format = "text"
	formatWide format = "wide"
	formatJSON format = "json"
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

// printText prints a text as a whole.
func printText(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}
