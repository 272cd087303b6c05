package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
)

// choice is the value of a flag that takes one of some words.
type choice struct {
	value, kind string
	allowed     []string
}

var _ pflag.Value = (*choice)(nil)

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return fmt.Errorf("expected %s", alternatives(c.allowed))
	}
	c.value = text
	return nil
}

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Type implements pflag.Value.
func (c *choice) Type() string { return c.kind }

// alternatives lists words as a sentence does.
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// How a command prints what it has to say.
const (
	formatText = "text"
	formatWide = "wide"
	formatJSON = "json"
	formatYAML = "yaml"
	formatName = "name"
)

// addOutput adds the flag for a format. Text and JSON are always allowed.
func addOutput(flags *pflag.FlagSet, more ...string) *choice {
	c := &choice{value: formatText, kind: "format", allowed: append([]string{formatText, formatJSON}, more...)}
	flags.VarP(c, "output", "o", "how to print: "+alternatives(c.allowed))
	return c
}

// When to paint.
const (
	colourAuto   = "auto"
	colourAlways = "always"
	colourNever  = "never"
)

// addColour adds the flag that says when to paint.
func addColour(flags *pflag.FlagSet) *choice {
	c := &choice{value: colourAuto, kind: "when", allowed: []string{colourAuto, colourAlways, colourNever}}
	flags.Var(c, "color", "when to paint: auto (on a terminal), always or never")
	return c
}

// paletteOf is what to paint with. A terminal whose user has nothing against colours gets them by itself; see
// no-color.org.
func paletteOf(when string, out io.Writer) inspect.Palette {
	return inspect.Palette(when == colourAlways || when == colourAuto && printers.AllowsColorOutput(out))
}

// printAs prints a value in a format: as a document, or as a text that may be wide.
func printAs(out io.Writer, format string, value any, text func(wide bool) string) error {
	switch format {
	case formatJSON:
		return printJSON(out, value)
	case formatYAML:
		return printYAML(out, value)
	default:
		return printText(out, text(format == formatWide))
	}
}

// printText prints a text as a whole.
func printText(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false) // schemas have such characters in patterns
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printYAML prints what is JSON in YAML.
func printYAML(out io.Writer, value any) error {
	document, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	text, err := yamlOf(document)
	if err != nil {
		return err
	}
	return printText(out, text)
}

// yamlOf writes a JSON document in YAML, as kubectl does; no document is no text.
func yamlOf(document json.RawMessage) (string, error) {
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
