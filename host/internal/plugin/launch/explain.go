package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	"github.com/pergola-deploy/pergola/host/internal/plugin/processlog"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/proto/handshake"
)

// maxQuoted bounds a text of the plugin in an error.
const maxQuoted = 8 << 10

// explain returns the reason of a failed start in the host's words; go-plugin's error is for its own developers. The
// process has ended, if there was one.
func (r *runner) explain(launching context.Context, timeout time.Duration, err error) error {
	switch {
	case r.startErr != nil:
		return fmt.Errorf("cannot be started: %w", r.startErr)
	case r.cmd == nil: // such as without room for the socket
		return fmt.Errorf("cannot be started: %w", err)
	case errors.Is(launching.Err(), context.DeadlineExceeded):
		return fmt.Errorf("is no Pergola plugin, or is too slow: no handshake within %s (timeouts.pluginStart)", timeout)
	case launching.Err() != nil:
		return launching.Err()
	}
	if line := r.out.first.text(); line != "" {
		return explainHandshake(line, sdkVersion(r.order.program.file), err)
	}
	said := cmp.Or(processlog.Cause(r.out.log.LastWords(2*timeout)), "nothing")
	switch r.cmd.ProcessState.ExitCode() {
	case sandbox.ExitNotExecutable:
		return Refuse(errors.New(said))
	case sandbox.ExitNotStarted:
		return fmt.Errorf("cannot be started: %s", said)
	default:
		return fmt.Errorf("is no Pergola plugin, or cannot run here: it ended before the handshake (%s); what it said "+
			"last: %s", r.cmd.ProcessState, said)
	}
}

// explainHandshake returns the reason of a failed handshake with this first line. sdk is the version of the program's
// sdk, empty if unknown; err is go-plugin's error.
func explainHandshake(line, sdk string, err error) error {
	parts := strings.Split(line, "|")
	version := 0
	if len(parts) >= 4 && parts[0] == strconv.Itoa(goplugin.CoreProtocolVersion) {
		version, _ = strconv.Atoi(parts[1]) // else it is no version
	}
	switch {
	case version <= 0:
		return fmt.Errorf("is no Pergola plugin: the first line on its standard output is no handshake: %s",
			text.Cut(line, maxQuoted))
	case version != handshake.ProtocolVersion:
		return fmt.Errorf("speaks version %d of the protocol (it was built with version %s of the sdk), but this host "+
			"speaks version %d; run a newer host, or a plugin built for this one", version,
			cmp.Or(text.Cut(sdk, maxQuoted), "unknown"), handshake.ProtocolVersion)
	case len(parts) == 4 || parts[4] != string(goplugin.ProtocolGRPC):
		return errors.New("is no Pergola plugin: it does not serve gRPC")
	case errors.Is(err, errElsewhere):
		return errElsewhere
	default:
		reason, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return fmt.Errorf("is no Pergola plugin, or cannot be reached: %s", text.Cut(reason, maxQuoted))
	}
}
