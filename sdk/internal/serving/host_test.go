package serving

import (
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
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

// What the system refuses to a confined plugin is told with what may be missing.
func TestConfinementHint(t *testing.T) { //nolint:paralleltest // it changes the environment
	refused := fmt.Errorf("read chart: %w", &fs.PathError{Op: "open", Path: "/root/chart", Err: syscall.EACCES})
	if hint := ConfinementHint(refused); hint != "" {
		t.Errorf("a plugin that is not confined: found %q", hint)
	}
	t.Setenv(handshake.ConfinedEnv, "1")
	if hint := ConfinementHint(refused); !strings.Contains(hint, "confinement of the HostConfiguration") {
		t.Errorf("a confined plugin: found %q", hint)
	}
	if hint := ConfinementHint(fs.ErrNotExist); hint != "" {
		t.Errorf("another error: found %q", hint)
	}
}
