package terminal

import (
	"fmt"
	"io"

	"k8s.io/cli-runtime/pkg/printers"
)

// Colour is a colour of texts.
type Colour string

// The colours. Plain leaves a text as it is.
const (
	Plain  Colour = ""
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Grey   Colour = "90"
)

// Palette paints texts, or leaves all of them as they are. The zero value leaves them.
type Palette struct {
	on bool
}

// Paint gives a text a colour.
func (p Palette) Paint(colour Colour, text string) string {
	if !p.on || colour == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}

// When says when to paint. It is the value of a flag; the zero value is Auto.
type When string

// The values of When.
const (
	// Auto: on a terminal whose user has nothing against colours; see no-color.org.
	Auto When = "auto"
	// Always: also into files and pipes.
	Always When = "always"
	// Never: nowhere.
	Never When = "never"
)

// Set implements pflag.Value.
func (w *When) Set(text string) error {
	switch value := When(text); value {
	case Auto, Always, Never:
		*w = value
		return nil
	default:
		return fmt.Errorf("expected %s, %s or %s", Auto, Always, Never)
	}
}

// String implements pflag.Value.
func (w *When) String() string { return string(*w) }

// Type implements pflag.Value.
func (w *When) Type() string { return "when" }

// Palette returns what to paint with on out.
func (w When) Palette(out io.Writer) Palette {
	switch w {
	case Always:
		return Palette{on: true}
	case Never:
		return Palette{}
	default:
		return Palette{on: printers.AllowsColorOutput(out)}
	}
}
