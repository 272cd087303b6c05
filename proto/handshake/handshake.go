// Package handshake is the agreement of host and plugin before the first call: the magic cookie, the versions of the
// protocol, the name of the service and the size of messages. It changes only together with the protocol's version.
package handshake

import goplugin "github.com/hashicorp/go-plugin"

// ProtocolVersion is the version of the protocol in pergola.deployer.v1. Host and plugin settle on the highest common
// version.
const ProtocolVersion = 1

// PluginName is the name of the deployer service in go-plugin.
const PluginName = "deployer"

// MaxMessageBytes is the largest message of either side. gRPC's default of 4 MiB for received messages is too small for
// deploy items with charts, values or many manifests.
const MaxMessageBytes = 64 << 20

// WindowBytes is the part of a message that is sent without an acknowledgement. With gRPC's own 64 KiB a message of a
// megabyte waits sixteen times for the other side.
const WindowBytes = 4 << 20

// LifelineEnv names the environment variable with the number of an inherited file descriptor. It reads end-of-file when
// the host is gone, for any reason; the plugin then ends.
const LifelineEnv = "PERGOLA_LIFELINE_FD"

// LogLevelEnv names the environment variable with the lowest level of the plugin's log: debug, info, warn or error.
const LogLevelEnv = "PERGOLA_LOG_LEVEL"

// ConfinedEnv names an environment variable of confined plugins. Its value has no meaning.
const ConfinedEnv = "PERGOLA_CONFINED"

// Config is the handshake of every Pergola plugin. The cookie is no secret: it keeps people from running a plugin by
// hand without an explanation.
func Config() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   "PERGOLA_DEPLOYER_PLUGIN",
		MagicCookieValue: "c6a1f3e2-8d6b-4f1e-9b57-2d5c7c0f4a90",
	}
}
