package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
)

// Choice is the value of a flag with a fixed set of values.
type Choice struct {
	Value   string
	kind    string
	allowed []string
}

var _ pflag.Value = (*Choice)(nil)

// Set implements pflag.Value.
func (c *Choice) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return fmt.Errorf("expected %s", alternatives(c.allowed))
	}
	c.Value = text
	return nil
}

// String implements pflag.Value.
func (c *Choice) String() string { return c.Value }

// Type implements pflag.Value.
func (c *Choice) Type() string { return c.kind }

// alternatives lists words as a sentence does.
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// completeChoices completes the flags of a command with their allowed values.
func completeChoices(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if c, ok := flag.Value.(*Choice); ok {
			complete := cobra.FixedCompletions(c.allowed, cobra.ShellCompDirectiveNoFileComp)
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, complete) // fails for unknown flags only
		}
	})
}

// The output formats.
const (
	FormatText = "text"
	FormatWide = "wide"
	FormatJSON = "json"
	FormatYAML = "yaml"
	FormatName = "name"
)

// AddOutput adds the flag for the output format: text, JSON, and more.
func AddOutput(flags *pflag.FlagSet, more ...string) *Choice {
	c := &Choice{Value: FormatText, kind: "format", allowed: append([]string{FormatText, FormatJSON}, more...)}
	flags.VarP(c, "output", "o", "output format: "+alternatives(c.allowed))
	return c
}

// The values of the flag for colours.
const (
	ColourAuto   = "auto"
	ColourAlways = "always"
	ColourNever  = "never"
)

// AddColour adds the flag for colours.
func AddColour(flags *pflag.FlagSet) *Choice {
	c := &Choice{Value: ColourAuto, kind: "when", allowed: []string{ColourAuto, ColourAlways, ColourNever}}
	flags.Var(c, "color", "when to use colours: auto (on a terminal), always or never")
	return c
}

// PaletteFor returns the palette for an output and a value of the flag for colours.
func PaletteFor(when string, out io.Writer) terminal.Palette {
	// AllowsColorOutput respects no-color.org.
	return terminal.Palette(when == ColourAlways || when == ColourAuto && printers.AllowsColorOutput(out))
}

// Print prints a value in a format: as a document, or as a text in two widths.
func Print(out io.Writer, format string, value any, text func(wide bool) string) error {
	switch format {
	case FormatJSON:
		return PrintJSON(out, value)
	case FormatYAML:
		return PrintYAML(out, value)
	default:
		return PrintText(out, text(format == FormatWide))
	}
}

// PrintText prints a text.
func PrintText(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// PrintJSON prints a value as a JSON document.
func PrintJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false) // patterns of schemas have such characters
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// PrintYAML prints the JSON form of a value as a YAML document.
func PrintYAML(out io.Writer, value any) error {
	document, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	text, err := YAML(document)
	if err != nil {
		return err
	}
	return PrintText(out, text)
}

// YAML converts a JSON document to YAML in the style of kubectl; "" for none.
func YAML(document json.RawMessage) (string, error) {
	if document == nil {
		return "", nil
	}
	var value any
	if err := utiljson.Unmarshal(document, &value); err != nil {
		return "", fmt.Errorf("read JSON: %w", err)
	}
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := errors.Join(encoder.Encode(value), encoder.Close()); err != nil {
		return "", fmt.Errorf("write YAML: %w", err)
	}
	return out.String(), nil
}
