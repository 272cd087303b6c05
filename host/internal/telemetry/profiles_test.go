package telemetry_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

func TestProfiles(t *testing.T) {
	server, err := telemetry.ListenForProfiles(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	for _, tc := range []struct {
		reason, path string
		code         int
		body         string
	}{
		{"the list of profiles", "/debug/pprof/", http.StatusOK, "goroutine"},
		{"one of them", "/debug/pprof/goroutine?debug=1", http.StatusOK, "goroutine profile: total"},
		{"what takes its time", "/debug/pprof/trace?seconds=0.01", http.StatusOK, "go 1."},
		{"nothing else", "/metrics", http.StatusNotFound, "404"},
	} {
		code, body, err := request(t, http.MethodGet, "http://"+server.Server.Addr+tc.path)
		if err != nil || code != tc.code || !strings.Contains(body, tc.body) {
			t.Errorf("%s: %d %.200q (%v)", tc.reason, code, body, err)
		}
	}
	rebound, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+server.Server.Addr+"/debug/pprof/heap", nil)
	if err != nil {
		t.Fatal(err)
	}
	rebound.Host = "attacker.example.com"
	response, err := http.DefaultClient.Do(rebound)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a page of somebody else's must not read profiles with a browser, but found %s", response.Status)
	}
	cancel()
	if err := receive(t, ended, "the end of the server"); err != nil {
		t.Error(err)
	}
	if _, err := telemetry.ListenForProfiles(t.Context(), "192.0.2.1:0"); err == nil || !strings.Contains(err.Error(), "listen for profiles") {
		t.Errorf("expected no such address, but found %v", err)
	}
}
