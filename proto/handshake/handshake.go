// Package handshake holds what host and plugin must agree on before the first call: the magic cookie, the versions of
// the protocol, the name under which the service is dispensed and the size of messages. It is part of the protocol,
// like the messages themselves, and changes only together with a new protocol version.
package handshake

import goplugin "github.com/hashicorp/go-plugin"

// ProtocolVersion is the version of the protocol in pergola.deployer.v1. Host and plugin settle on the highest version
// that both have.
const ProtocolVersion = 1

// PluginName is the name under which the deployer service is dispensed.
const PluginName = "deployer"

// MaxMessageBytes is the largest message that either side accepts. gRPC's own default of 4 MiB for received messages is
// too small for deploy items that carry charts, values or many manifests.
const MaxMessageBytes = 64 << 20

// WindowBytes is how much of one message either side takes before it has acknowledged any, on a socket that has no
// distance to cover. With gRPC's own 64 KiB a message of a megabyte waits sixteen times for the other side.
const WindowBytes = 4 << 20

// LifelineEnv names the environment variable with the number of a file descriptor that the plugin inherits. It reads
// end-of-file when the host is gone, however it went; the plugin then ends.
const LifelineEnv = "PERGOLA_LIFELINE_FD"

// LogLevelEnv names the environment variable with the lowest level that the plugin is to log: debug, info, warn or
// error.
const LogLevelEnv = "PERGOLA_LOG_LEVEL"

// ConfinedEnv names the environment variable that is there, with any value, if the plugin is confined to the files that
// it needs.
const ConfinedEnv = "PERGOLA_CONFINED"

// Config is the handshake of every Pergola plugin. The cookie is no secret: it only keeps people from running a plugin
// by hand and wondering why nothing happens.
func Config() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  ProtocolVersion,
		MagicCookieKey:   "PERGOLA_DEPLOYER_PLUGIN",
		MagicCookieValue: "c6a1f3e2-8d6b-4f1e-9b57-2d5c7c0f4a90",
	}
}
