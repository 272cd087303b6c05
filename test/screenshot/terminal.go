package screenshot

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	lineHeight = 20
	charWidth  = 9
	padding    = 24
)

// terminalPage is a terminal as a page.
const terminalPage = `<!DOCTYPE html><html><head><meta charset="utf-8"><style>
html { background: #16181d; }
body { margin: 24px; color: #d6d9df; }
pre { margin: 0; font: 15px/20px "DejaVu Sans Mono", "Liberation Mono", monospace; }
.b { font-weight: bold; } .d { opacity: .65; }
.c31 { color: #ff7b72; } .c32 { color: #7ee787; } .c33 { color: #e3b341; } .c34 { color: #79c0ff; } .c35 { color: #d2a8ff; } .c36 { color: #76e3ea; } .c90 { color: #8b949e; }
</style></head><body><pre>%s</pre></body></html>`

// sequence is how a program says how a terminal is to show what follows.
var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// classes of the codes of such a sequence.
var classes = map[string]string{
	"1": "b", "2": "d", "31": "c31", "32": "c32", "33": "c33", "34": "c34", "35": "c35", "36": "c36", "90": "c90",
	"91": "c31", "92": "c32", "93": "c33", "94": "c34", "95": "c35", "96": "c36",
}

// Terminal takes a picture of a terminal on which a program has printed a text, with its colours.
func (b *Browser) Terminal(ctx context.Context, text string) (_ []byte, err error) {
	text = strings.TrimRight(text, "\n")
	dir, err := os.MkdirTemp("", "terminal-")
	if err != nil {
		return nil, fmt.Errorf("show terminal: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "terminal.html")
	if err := os.WriteFile(file, fmt.Appendf(nil, terminalPage, HTML(text)), 0o600); err != nil {
		return nil, fmt.Errorf("show terminal: %w", err)
	}
	width, height := size(text)
	return b.Picture(ctx, (&url.URL{Scheme: "file", Path: file}).String(), width, height)
}

// size of the window in which a text fits.
func size(text string) (width, height int) {
	lines := strings.Split(sequence.ReplaceAllString(text, ""), "\n")
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line)*charWidth)
	}
	return width + 2*padding, len(lines)*lineHeight + 2*padding
}

// HTML is a text for a terminal as a browser shows it, with its colours.
func HTML(text string) string {
	var out strings.Builder
	open, rest := false, text
	end := func() {
		if open {
			out.WriteString("</span>")
			open = false
		}
	}
	for {
		at := sequence.FindStringSubmatchIndex(rest)
		if at == nil {
			out.WriteString(html.EscapeString(rest))
			end()
			return out.String()
		}
		out.WriteString(html.EscapeString(rest[:at[0]]))
		end()
		var names []string
		for code := range strings.SplitSeq(rest[at[2]:at[3]], ";") {
			if class := classes[code]; class != "" {
				names = append(names, class)
			}
		}
		if len(names) > 0 {
			out.WriteString(`<span class="` + strings.Join(names, " ") + `">`)
			open = true
		}
		rest = rest[at[1]:]
	}
}
