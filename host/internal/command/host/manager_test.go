package host

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/config"
)

// At level info the log has the errors of a manager, and not its starts and stops.
func TestManagerIsQuiet(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := managerLogger(slog.New(slog.NewTextHandler(&out, nil)))
	log.Info("starting")
	log.Error(errors.New("no"), "failed")
	if got := out.String(); strings.Contains(got, "starting") || !strings.Contains(got, "failed") {
		t.Errorf("expected the error alone, but found %s", got)
	}
}

func TestClusterConfig(t *testing.T) {
	t.Parallel()
	kubeconfig := commandtest.Kubeconfig(t, "http://127.0.0.1:1")
	unlimited, err := clusterConfig(kubeconfig, "v1", config.Client{})
	if err != nil || unlimited.QPS != -1 || unlimited.RateLimiter != nil {
		t.Errorf("expected no limit, but found %+v, %v", unlimited, err)
	}
	// So slow that nothing is added to the burst while the test runs.
	limited, err := clusterConfig(kubeconfig, "v1", config.Client{QPS: 0.001, Burst: 3})
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for range 10 {
		if limited.RateLimiter.TryAccept() {
			accepted++
		}
	}
	if accepted != 3 || limited.RateLimiter.QPS() != 0.001 {
		t.Errorf("expected a burst of 3 at 0.001 a second, but found %d at %v", accepted, limited.RateLimiter.QPS())
	}
}
