package download_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/download"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/keyring"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

func newClient(t *testing.T, config download.Config) *download.Client {
	t.Helper()
	c, err := download.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// get returns the content at an address.
func get(t *testing.T, c *download.Client, g download.Get, trust ...download.Trust) (string, error) {
	t.Helper()
	client, err := c.HTTP(trust...)
	if err != nil {
		t.Fatal(err)
	}
	content, err := g.Do(t.Context(), client)
	if err != nil {
		return "", err
	}
	defer content.Body.Close()
	body, err := io.ReadAll(content.Body)
	return string(body), err
}

func trustIn(server *chartserver.Server) download.Trust {
	return download.Trust{Origin: keyring.OriginOf("https", server.Host()), CAData: server.CA()}
}

// TestTrustIsForOneServer: an authority counts for the server that it is given for, also when connections are shared.
func TestTrustIsForOneServer(t *testing.T) {
	t.Parallel()
	one, two := chartserver.StartFiles(t, chartserver.Options{}), chartserver.StartFiles(t, chartserver.Options{})
	c := newClient(t, download.Config{UserAgent: "tester"})
	ofOne, ofTwo := mustParse(t, one.Put("a", []byte("a"))), mustParse(t, two.Put("a", []byte("b")))
	for range 2 {
		if got, err := get(t, c, download.Get{URL: ofOne}, trustIn(one.Server)); got != "a" || err != nil {
			t.Errorf("expected the content, but found %q and %v", got, err)
		}
		if got, err := get(t, c, download.Get{URL: ofTwo}, trustIn(one.Server)); err == nil {
			t.Errorf("expected the other server not to be trusted, but found %q", got)
		}
		if got, err := get(t, c, download.Get{URL: ofOne}); err == nil {
			t.Errorf("expected the server not to be trusted without its authority, but found %q", got)
		}
		if got, err := get(t, c, download.Get{URL: ofTwo}, trustIn(one.Server), download.Trust{Origin: trustIn(two.Server).Origin, Insecure: true}); got != "b" || err != nil {
			t.Errorf("expected any certificate to be taken, but found %q and %v", got, err)
		}
	}
	for _, r := range one.Requests(chartserver.Any) {
		if got := r.Header.Get("User-Agent"); got != "tester" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("expected the user agent and no compression, but found %v", r.Header)
		}
	}
	if _, err := c.HTTP(download.Trust{CAData: []byte("none")}); !errors.Is(err, download.ErrCAData) {
		t.Errorf("expected an error for what is no certificate, but found %v", err)
	}
}

// TestRedirects: names of hosts are resolved to one server, so that what is below a host, or beside it, can be told from it.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason, from, to string
		want             bool
	}{
		"Same":      {"the same server", "http://c.example.org/a", "http://c.example.org/b", true},
		"Port":      {"the port of the scheme says nothing", "http://c.example.org/a", "http://c.example.org:80/b", true},
		"OtherPort": {"another port is another server", "http://c.example.org/a", "http://c.example.org:8080/b", false},
		"Below":     {"the owner of a name may not be that of names below it", "http://example.org/a", "http://c.example.org/b", false},
		"Above":     {"nor the other way round", "http://c.example.org/a", "http://example.org/b", false},
		"Other":     {"another server", "http://c.example.org/a", "http://d.example.org/b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var last http.Header
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/a" {
					http.Redirect(w, r, test.to, http.StatusFound)
					return
				}
				last = r.Header
			}))
			defer server.Close()
			transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			}}
			c := newClient(t, download.Config{Transport: transport})
			if _, err := get(t, c, download.Get{URL: mustParse(t, test.from), Authorization: "Basic x"}); err != nil {
				t.Fatal(err)
			}
			if got := last.Get("Authorization") != ""; got != test.want || last.Get("Referer") != "" {
				t.Errorf("%s: expected credentials: %t, but found %v", test.reason, test.want, last)
			}
		})
	}
}

// TestSlowIsNotStalled: what matters is the time without anything, not that of all.
func TestSlowIsNotStalled(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, chartserver.Options{PlainHTTP: true})
	at := mustParse(t, files.URL())
	files.Break(chartserver.Any, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		for range 20 {
			_, _ = w.Write([]byte("x"))
			_ = http.NewResponseController(w).Flush()
			<-time.After(150 * time.Millisecond)
		}
	})
	c := newClient(t, download.Config{StallAfter: 2 * time.Second})
	if got, err := get(t, c, download.Get{URL: at}); len(got) != 20 || err != nil {
		t.Errorf("expected all of the content, but found %q and %v", got, err)
	}
	files.Break(chartserver.Any, chartserver.Stall([]byte("xxx")))
	if got, err := get(t, c, download.Get{URL: at}); !errors.Is(err, download.ErrStalled) {
		t.Errorf("expected it to be given up, but found %q and %v", got, err)
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	files := chartserver.StartFiles(t, chartserver.Options{PlainHTTP: true})
	at := mustParse(t, files.URL())
	files.Break(chartserver.Any, chartserver.Stall([]byte("con")))
	client, err := newClient(t, download.Config{}).HTTP()
	if err != nil {
		t.Fatal(err)
	}
	aborted := errors.New("aborted")
	ctx, cancel := context.WithCancelCause(t.Context())
	content, err := download.Get{URL: at}.Do(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Body.Close()
	cancel(aborted)
	if _, err := io.ReadAll(content.Body); !errors.Is(err, aborted) {
		t.Errorf("expected the cause, but found %v", err)
	}
}

// TestQuotesNothing: what a server says that is no web server is not repeated.
func TestQuotesNothing(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SECRET-BANNER 1.0\r\n\r\n"))
			_ = conn.Close()
		}
	}()
	_, err = get(t, newClient(t, download.Config{}), download.Get{URL: mustParse(t, "http://"+listener.Addr().String())})
	if !errors.Is(err, download.ErrProtocol) || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("expected an error that quotes nothing, but found %v", err)
	}
}

func TestDisplay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://me:secret@example.org/a/b?token=secret#secret": "https://example.org/a/b?…",
		"https://example.org:8443":                              "https://example.org:8443",
	} {
		if got := download.Display(mustParse(t, text)); got != want {
			t.Errorf("%s: expected %s, but found %s", text, want, got)
		}
	}
}
