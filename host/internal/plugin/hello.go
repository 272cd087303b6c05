package plugin

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pergola-deploy/pergola/proto/handshake"
)

// handshakeLine is the first line that a plugin prints, as far as it says why go-plugin does not want it.
type handshakeLine struct {
	text string
	// version of Pergola's protocol; zero if the line is none of a plugin.
	version int
	// transport that the plugin serves, such as grpc.
	transport string
}

// coreVersion is the version of go-plugin's own part of the handshake.
const coreVersion = "1"

func parseHandshake(line string) handshakeLine {
	h := handshakeLine{text: strings.TrimSpace(line)}
	parts := strings.Split(h.text, "|")
	if len(parts) < 4 || parts[0] != coreVersion {
		return h
	}
	version, err := strconv.Atoi(parts[1])
	if err != nil || version < 0 {
		return h
	}
	h.version, h.transport = version, "netrpc"
	if len(parts) > 4 {
		h.transport = parts[4]
	}
	return h
}

// explain says why a program with this first line is no plugin of this host. sdk is the version of the sdk that it was built with, if
// that is known; err is what go-plugin says.
func (h handshakeLine) explain(sdk string, err error) error {
	switch {
	case h.text == "":
		return fmt.Errorf("is no Pergola plugin: it closed its standard output without a handshake")
	case h.version == 0:
		return fmt.Errorf("is no Pergola plugin: the first line on its standard output is no handshake: %s", bounded(h.text))
	case h.version != handshake.ProtocolVersion:
		return h.versionError(sdk)
	case h.transport != "grpc":
		return fmt.Errorf("is no Pergola plugin: it serves %s, and not gRPC", cut(h.transport, maxText))
	case errors.Is(err, errElsewhere):
		return errElsewhere
	default:
		line, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return fmt.Errorf("is no Pergola plugin, or cannot be reached: %s", bounded(line))
	}
}

func (h handshakeLine) versionError(sdk string) error {
	built := "an sdk of unknown version"
	if sdk != "" {
		built = "version " + cut(sdk, maxText) + " of the sdk"
	}
	advice := "run a newer host, or a plugin that was built for this one"
	if h.version < handshake.ProtocolVersion {
		advice = "build the plugin again with a newer sdk"
	}
	return fmt.Errorf("speaks version %d of the protocol (it was built with %s), but this host speaks version %d; %s",
		h.version, built, handshake.ProtocolVersion, advice)
}
