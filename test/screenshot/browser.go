// Package screenshot has a real browser look at pages, and at what programs print on a terminal, for tests and for the pictures in the docs.
package screenshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoBrowser says that no browser is installed.
var ErrNoBrowser = errors.New("there is no browser: `make test` installs one where it can; otherwise install chromium-headless-shell or chromium")

// programs are the names that the browser has.
var programs = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

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

// DOM returns the document at a URL as the browser has it once it is loaded, as HTML.
func (b *Browser) DOM(ctx context.Context, url string) (string, error) {
	return b.run(ctx, "--dump-dom", url)
}

// Picture takes a picture of what is at a URL, in PNG, of a window of this size.
func (b *Browser) Picture(ctx context.Context, url string, width, height int) (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "picture-")
	if err != nil {
		return nil, fmt.Errorf("take a picture: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "picture.png")
	if _, err := b.run(ctx, fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+file, url); err != nil {
		return nil, err
	}
	picture, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("take a picture: %w", err)
	}
	return picture, nil
}

// run runs the browser and returns what it prints. What it complains about in a page, such as a thing that the page may not load, is an error.
func (b *Browser) run(ctx context.Context, args ...string) (_ string, err error) {
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return "", fmt.Errorf("start browser: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(profile)) }()
	// Tests may be run by root, for whom the browser has no sandbox; it sees nothing but the tests' own pages.
	// In the full browser the window has tabs and an address bar, which would take their height from the page.
	common := []string{
		"--headless", "--start-fullscreen", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
		"--user-data-dir=" + profile,
	}
	cmd := exec.CommandContext(ctx, b.program, append(common, args...)...) //nolint:gosec // the browser, and URLs of tests
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.Env = append(os.Environ(), "HOME="+profile)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("run browser: %w\n%s", err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, ":CONSOLE") {
			return "", fmt.Errorf("the browser complains: %s", strings.TrimSpace(line))
		}
	}
	return out.String(), nil
}

// Colours is how many colours a picture in PNG has. A picture of an empty page has one.
func Colours(picture []byte) (int, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return 0, fmt.Errorf("decode picture: %w", err)
	}
	return len(colours(decoded, decoded.Bounds())), nil
}

// Margin is how many rows at the lower edge of a picture in PNG are empty. Where there are fewer than between two things, something may be cut off.
func Margin(picture []byte) (int, error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return 0, fmt.Errorf("decode picture: %w", err)
	}
	lower := decoded.Bounds()
	for lower.Min.Y = lower.Max.Y - 1; lower.Min.Y > 0 && len(colours(decoded, lower)) == 1; lower.Min.Y-- {
	}
	return lower.Dy() - 1, nil
}

func colours(of image.Image, within image.Rectangle) map[color.Color]bool {
	seen := map[color.Color]bool{}
	for y := within.Min.Y; y < within.Max.Y; y++ {
		for x := within.Min.X; x < within.Max.X; x++ {
			seen[of.At(x, y)] = true
		}
	}
	return seen
}
