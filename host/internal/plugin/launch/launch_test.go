package launch

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/test/await"
)

// A program whose start fails is started again and again, so nothing may be left of an attempt. The directory for
// temporary files may be missing, or full.
func TestLaunchWhatCannotBeExecuted(t *testing.T) {
	t.Parallel()
	dir, sockets := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "script"), []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{filepath.Join(dir, "missing"), sockets} {
		program := NewProgram(dir, "script")
		t.Cleanup(program.Close)
		if _, err := program.Open(); err != nil {
			t.Fatal(err)
		}
		settings := Settings{TempDir: place, Timeout: time.Minute, Clock: clock.RealClock{}}
		_, err := program.Launch(t.Context(), Profile{}, settings, slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "cannot be started") {
			t.Errorf("expected that it cannot be started, but found: %v", err)
		}
	}
	await.That(t, 30*time.Second, "nothing to be left in the directory of sockets", func() bool {
		rest, err := os.ReadDir(sockets)
		return err == nil && len(rest) == 0
	})
}
