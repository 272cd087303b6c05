package screenshot_test

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/screenshot"
)

// browser finds a browser, or skips the test.
func browser(t *testing.T) *screenshot.Browser {
	t.Helper()
	b, err := screenshot.Find()
	if errors.Is(err, screenshot.ErrNoBrowser) {
		t.Skip(err)
	}
	return b
}

func TestHTML(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, text, want string }{
		{"plain text", "a <b> & c", "a &lt;b&gt; &amp; c"},
		{"a colour", "a \x1b[31mred\x1b[0m b", `a <span class="c31">red</span> b`},
		{"two at once", "\x1b[1;32mbold\x1b[0m", `<span class="b c32">bold</span>`},
		{"one after the other", "\x1b[31ma\x1b[32mb\x1b[m", `<span class="c31">a</span><span class="c32">b</span>`},
		{"one that has no end", "\x1b[31ma", `<span class="c31">a</span>`},
		{"one that is not known", "\x1b[5ma\x1b[0m", "a"},
	} {
		if got := screenshot.HTML(tc.text); got != tc.want {
			t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
		}
	}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	b := browser(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'")
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/bad" {
			_, _ = fmt.Fprint(w, "<script>document.title = 'run'</script>")
		}
		_, _ = fmt.Fprint(w, "<h1>Hello</h1>")
		if r.URL.Path == "/long" {
			_, _ = fmt.Fprint(w, strings.Repeat("<p>Hello</p>", 20))
		}
	}))
	defer server.Close()
	dom, err := b.DOM(t.Context(), server.URL)
	if err != nil || !strings.Contains(dom, "<h1>Hello</h1>") {
		t.Errorf("unexpected document %q, %v", dom, err)
	}
	if _, err := b.DOM(t.Context(), server.URL+"/bad"); err == nil || !strings.Contains(err.Error(), "the browser complains") {
		t.Errorf("expected a complaint about what the page may not do, but found %v", err)
	}
	for path, whole := range map[string]bool{"/": true, "/long": false} {
		picture, err := b.Picture(t.Context(), server.URL+path, 300, 200)
		if err != nil {
			t.Fatal(err)
		}
		if margin, err := screenshot.Margin(picture); err != nil || margin > 50 != whole {
			t.Errorf("%s: found a margin of %d, %v", path, margin, err)
		}
	}
	picture, err := b.Picture(t.Context(), server.URL, 300, 200)
	if err != nil {
		t.Fatal(err)
	}
	if config, err := png.DecodeConfig(bytes.NewReader(picture)); err != nil || config.Width != 300 || config.Height != 200 {
		t.Errorf("unexpected picture: %+v, %v", config, err)
	}
	if colours, err := screenshot.Colours(picture); err != nil || colours < 2 {
		t.Errorf("expected something to be seen, but found %d colours, %v", colours, err)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	picture, err := browser(t).Terminal(t.Context(), "shop/web\n└─ \x1b[32mReady\x1b[0m Deployment/web\n")
	if err != nil {
		t.Fatal(err)
	}
	if colours, err := screenshot.Colours(picture); err != nil || colours < 3 {
		t.Errorf("expected text and colours, but found %d colours, %v", colours, err)
	}
}
