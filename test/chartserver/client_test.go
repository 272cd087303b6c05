package chartserver

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// response is what a server has answered.
type response struct {
	status int
	header http.Header
	body   []byte
}

// get asks a server for a path, with the value of a header Authorization if it is not empty.
func get(t *testing.T, server *Server, path, authorization string) *response {
	t.Helper()
	request := newRequest(t, http.MethodGet, server.URL()+path, nil)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	return do(t, server, request)
}

func post(t *testing.T, server *Server, path string, form url.Values) *response {
	t.Helper()
	request := newRequest(t, http.MethodPost, server.URL()+path, strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return do(t, server, request)
}

func newRequest(t *testing.T, method, target string, body io.Reader) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// do follows no redirect.
func do(t *testing.T, server *Server, request *http.Request) *response {
	t.Helper()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &response{status: answer.StatusCode, header: answer.Header, body: body}
}

func answered(requests []Request, status int) []Request {
	return slices.DeleteFunc(requests, func(r Request) bool { return r.Status != status })
}

func decode(t *testing.T, content []byte) map[string]any {
	t.Helper()
	var decoded map[string]any
	if err := json.Unmarshal(content, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
