package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// browsers are the names that a browser's program has.
var browsers = []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"}

// pictureOf has a real browser take a picture of what is at a URL, in PNG, of a window of this size. Without a browser
// the test is skipped. What the browser complains about in the page, such as a thing that the page may not load, ends
// the test.
func pictureOf(t *testing.T, url string, width, height int) []byte {
	t.Helper()
	at := slices.IndexFunc(browsers, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
	if at < 0 {
		t.Skip("there is no browser: `make test` installs one where it can; " +
			"otherwise install chromium-headless-shell or chromium")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "picture.png")
	// Tests may be run by root, for whom the browser has no sandbox; it sees nothing but the tests' own pages.
	// In the full browser the window has tabs and an address bar, which would take their height from the page.
	cmd := exec.CommandContext(t.Context(), browsers[at], "--headless", "--start-fullscreen", "--no-sandbox",
		"--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr", "--user-data-dir="+dir,
		fmt.Sprintf("--window-size=%d,%d", width, height), "--screenshot="+file, url)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	log, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(log), ":CONSOLE") {
		t.Fatalf("the browser complains: %v\n%s", err, log)
	}
	picture, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// measure tells how many colours a picture in PNG has, of which one of an empty page has one, and how many rows at its
// lower edge are empty. Where there are fewer than between two things, something may be cut off.
func measure(picture []byte) (all, margin int, err error) {
	decoded, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return 0, 0, fmt.Errorf("decode picture: %w", err)
	}
	lower := decoded.Bounds()
	for lower.Min.Y = lower.Max.Y - 1; lower.Min.Y > 0 && coloursOf(decoded, lower) == 1; lower.Min.Y-- {
	}
	return coloursOf(decoded, decoded.Bounds()), lower.Dy() - 1, nil
}

func coloursOf(of image.Image, within image.Rectangle) int {
	seen := map[color.Color]bool{}
	for y := within.Min.Y; y < within.Max.Y; y++ {
		for x := within.Min.X; x < within.Max.X; x++ {
			seen[of.At(x, y)] = true
		}
	}
	return len(seen)
}
