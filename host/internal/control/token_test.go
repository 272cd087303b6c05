package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// countingPlugins count what they were asked for.
type countingPlugins struct{ lists, reloads atomic.Int32 }

func (p *countingPlugins) Details() ([]plugin.Detail, error) {
	p.lists.Add(1)
	return nil, nil
}

func (p *countingPlugins) Reload(context.Context, ...string) ([]plugin.Reloaded, error) {
	p.reloads.Add(1)
	return nil, nil
}

func (p *countingPlugins) asked() int { return int(p.lists.Load() + p.reloads.Load()) }

// Without the token nobody learns even which paths there are.
func TestNothingWithoutToken(t *testing.T) {
	t.Parallel()
	plugins := &countingPlugins{}
	dir, _ := serve(t, plugins)
	otherDir, _ := serve(t, plugins)
	token := mustToken(t, dir)
	headers := []struct{ reason, value string }{
		{reason: "none"},
		{reason: "no scheme", value: token},
		{reason: "empty", value: bearer},
		{reason: "another scheme", value: "Basic " + token},
		{reason: "the beginning", value: bearer + token[:len(token)-1]},
		{reason: "more", value: bearer + token + "0"},
		{reason: "other digits", value: bearer + strings.Repeat("0", len(token))},
		{reason: "another host's", value: bearer + mustToken(t, otherDir)},
	}
	for _, path := range []string{jobsPath, pluginsPath, reloadPath, "/", "/v2/plugins", "//v1/plugins", "/v1/../v1/plugins", "*"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace} {
			for _, header := range headers {
				status, failure := ask(t, dir, method, path, header.value)
				if status != http.StatusUnauthorized || method != http.MethodHead && !strings.Contains(failure, tokenName) {
					t.Errorf("%s: %s %s: expected to be refused and told what to do, but found %d with %q", header.reason, method, path, status, failure)
				}
			}
		}
	}
	if plugins.asked() > 0 {
		t.Errorf("plugins were asked %d times by somebody without the token", plugins.asked())
	}
	if status, failure := ask(t, dir, http.MethodPost, reloadPath, bearer+token); status != http.StatusOK || plugins.reloads.Load() != 1 {
		t.Errorf("expected the token to be enough, but found %d with %q", status, failure)
	}
}

// ask sends a request as it stands, with this Authorization unless it is empty, and returns what the Failure says that it is answered by.
func ask(t *testing.T, dir, method, path, header string) (status int, failure string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://host", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.URL.Opaque = path
	if header != "" {
		request.Header.Set(authorization, header)
	}
	response, err := NewClient(dir).http.Transport.RoundTrip(request) // follows no redirection
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	answer := &Failure{}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil && method != http.MethodHead {
		t.Errorf("%s %s: the answer is no JSON: %v", method, path, err)
	}
	return response.StatusCode, answer.Error
}

func TestTokensDiffer(t *testing.T) {
	t.Parallel()
	one, err := createToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	two, err := createToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if one == two || len(one) != 2*tokenBytes {
		t.Errorf("expected two tokens of %d bytes in hexadecimal digits, but found %q and %q", tokenBytes, one, two)
	}
}

// Somebody else's file is not taken for the host's: he would know what is in it.
func TestTokenIsNew(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, tokenName), []byte("known"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), dir, &fakePlugins{}, noJobs, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tokenName) {
		t.Errorf("expected that there is a token already, but found: %v", err)
	}
}
