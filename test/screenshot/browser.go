// Package screenshot has a real browser look at pages, and at what programs print on a terminal, for tests and for the pictures in the docs.
package screenshot

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ErrNoBrowser says that no browser is installed.
var ErrNoBrowser = errors.New("there is no browser: `make test` installs one where it can; otherwise install chromium-headless-shell or chromium")

// programs are the names that the browser has.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// The sizes of a terminal's characters, and of its margin.
const lineHeight, charWidth, padding = 20, 9, 24

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

// Browser is a browser that is installed on this machine. Each of its methods starts a process of its own and waits for its end.
type Browser struct {
	program string
}

// Find finds a browser. The error is ErrNoBrowser if there is none.
func Find() (*Browser, error) {
	for _, name := range programs {
		if program, err := exec.LookPath(name); err == nil {
			return &Browser{program: program}, nil
		}
	}
	return nil, ErrNoBrowser
}

// Terminal takes a picture of a terminal on which a program has printed a text, with its colours.
func (b *Browser) Terminal(ctx context.Context, text string) ([]byte, error) {
	text = strings.TrimRight(text, "\n")
	width, lines := 0, strings.Split(sequence.ReplaceAllString(text, ""), "\n")
	for _, line := range lines {
		width = max(width, utf8.RuneCountInString(line)*charWidth)
	}
	page := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, terminalPage, toHTML(text)))
	return b.Picture(ctx, "data:text/html;base64,"+page, width+2*padding, len(lines)*lineHeight+2*padding)
}

// toHTML is a text for a terminal as a browser shows it, with its colours.
func toHTML(text string) string {
	spans := sequence.ReplaceAllStringFunc(html.EscapeString(text), func(codes string) string {
		var names []string
		for code := range strings.SplitSeq(strings.Trim(codes, "\x1b[m"), ";") {
			names = append(names, classes[code])
		}
		return `</span><span class="` + strings.Join(names, " ") + `">`
	})
	return "<span>" + spans + "</span>"
}

// Picture takes a picture of what is at a URL, in PNG, of a window of this size. What the browser complains about in the page, such as a thing
// that the page may not load, is an error.
func (b *Browser) Picture(ctx context.Context, url string, width, height int) (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return nil, fmt.Errorf("start browser: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	picture := filepath.Join(dir, "picture.png")
	// Tests may be run by root, for whom the browser has no sandbox; it sees nothing but the tests' own pages.
	// In the full browser the window has tabs and an address bar, which would take their height from the page.
	cmd := exec.CommandContext(ctx, b.program, "--headless", "--start-fullscreen", "--no-sandbox", //nolint:gosec // URLs of tests
		"--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--user-data-dir="+dir,
		fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+picture, url)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	log, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("run browser: %w\n%s", err, log)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, ":CONSOLE") {
			return nil, fmt.Errorf("the browser complains: %s", strings.TrimSpace(line))
		}
	}
	return os.ReadFile(picture)
}

// Colours is how many colours a picture in PNG has. A picture of an empty page has one.
func Colours(picture []byte) (int, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return 0, fmt.Errorf("decode picture: %w", err)
	}
	return colours(decoded, decoded.Bounds()), nil
}

// Margin is how many rows at the lower edge of a picture in PNG are empty. Where there are fewer than between two things, something may be cut off.
func Margin(picture []byte) (int, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return 0, fmt.Errorf("decode picture: %w", err)
	}
	lower := decoded.Bounds()
	for lower.Min.Y = lower.Max.Y - 1; lower.Min.Y > 0 && colours(decoded, lower) == 1; lower.Min.Y-- {
	}
	return lower.Dy() - 1, nil
}

func colours(of image.Image, within image.Rectangle) int {
	seen := map[color.Color]bool{}
	for y := within.Min.Y; y < within.Max.Y; y++ {
		for x := within.Min.X; x < within.Max.X; x++ {
			seen[of.At(x, y)] = true
		}
	}
	return len(seen)
}
