// Package screenshot has a real browser look at pages, for tests and for the pictures in the docs.
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

// Browser is a browser that is installed on this machine. Each of its methods starts a process of its own and waits
// for its end.
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

// Picture takes a picture of what is at a URL, in PNG, of a window of this size. What the browser complains about in
// the page, such as a thing that the page may not load, is an error.
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

// Measure tells how many colours a picture in PNG has, of which one of an empty page has one, and how many rows at its
// lower edge are empty. Where there are fewer than between two things, something may be cut off.
func Measure(picture []byte) (all, margin int, err error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return 0, 0, fmt.Errorf("decode picture: %w", err)
	}
	lower := decoded.Bounds()
	for lower.Min.Y = lower.Max.Y - 1; lower.Min.Y > 0 && colours(decoded, lower) == 1; lower.Min.Y-- {
	}
	return colours(decoded, decoded.Bounds()), lower.Dy() - 1, nil
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
