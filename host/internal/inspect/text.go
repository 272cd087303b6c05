package inspect

import (
	"strconv"
	"strings"
	"unicode"
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

// Palette paints texts, or leaves all of them as they are.
type Palette struct {
	// On says whether it paints.
	On bool
}

// Paint gives a text a colour.
func (p Palette) Paint(colour Colour, text string) string {
	if !p.On || colour == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}

// Indented returns texts, each in lines of its own, which stand out from the lines above.
func Indented(texts ...string) string {
	var out strings.Builder
	for _, text := range texts {
		for line := range strings.Lines(text) {
			out.WriteString("    " + Printable(strings.TrimRight(line, "\r\n")) + "\n")
		}
	}
	return out.String()
}

// Printable writes out what a terminal would take for a command.
func Printable(text string) string {
	var out strings.Builder
	for _, r := range text { // what is no UTF-8 is U+FFFD here
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}
