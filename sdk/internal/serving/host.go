package serving

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"syscall"

	"github.com/pergola-deploy/pergola/proto/handshake"
)

// Exit codes of a plugin.
const (
	exitFailed        = 1
	exitMisconfigured = 2
	exitHostGone      = 3
)

// logLevel returns the level in the environment, one of slog's names in any case, or else the default.
func logLevel(byDefault slog.Level) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(os.Getenv(handshake.LogLevelEnv))); err != nil {
		return byDefault
	}
	return level
}

// endWithHost ends the process when the host is gone. The host holds the other end of a pipe. The kernel closes it at
// any end of the host, sooner and more surely than a check of the parent's process id would notice.
func endWithHost() {
	fd, err := strconv.Atoi(os.Getenv(handshake.LifelineEnv))
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = io.Copy(io.Discard, lifeline)
		os.Exit(exitHostGone)
	}()
}

// ConfinementHint returns the possible cause of a missing permission, because the system does not name it; empty for
// other errors.
func ConfinementHint(err error) string {
	if os.Getenv(handshake.ConfinedEnv) == "" || !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	return " (the plugin is confined: it can only write below $TMPDIR, and read what every program needs; " +
		"an operator can give it more with plugins.<name>.confinement of the HostConfiguration)"
}
