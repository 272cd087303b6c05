package plugin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestProcessLog: what is logged goes to the logger of the process, also to one that is set later, with all that was
// added.
func TestProcessLog(t *testing.T) { //nolint:paralleltest // the logger of the process is changed
	log := slog.New(processLog{}).With("a", 1).WithGroup("g").With("b", 2)
	other := log.With("c", 3)

	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	log.Debug("hidden")
	log.Info("shown", "d", 4)
	other.Info("other")

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasSuffix(lines[0], "msg=shown a=1 g.b=2 g.d=4") ||
		!strings.HasSuffix(lines[1], "msg=other a=1 g.b=2 g.c=3") {
		t.Errorf("found:\n%s", out.String())
	}
}
