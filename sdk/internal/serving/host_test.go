package serving

import (
	"log/slog"
	"testing"

	"github.com/pergola-deploy/pergola/proto/handshake"
)

func TestLogLevel(t *testing.T) { //nolint:paralleltest // it changes the environment
	for name, tc := range map[string]struct {
		reason string
		want   slog.Level
	}{
		"debug":  {"slog's names", slog.LevelDebug},
		"WARN":   {"in any case", slog.LevelWarn},
		"":       {"a host may want none", slog.LevelInfo},
		"chatty": {"a later host may know more levels", slog.LevelInfo},
	} {
		t.Setenv(handshake.LogLevelEnv, name)
		if got := logLevel(slog.LevelInfo); got != tc.want {
			t.Errorf("%s: %q means %s", tc.reason, name, got)
		}
	}
}
