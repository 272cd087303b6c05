package plugin

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
)

// maxTempDir leaves room for the names that go-plugin makes up: the path of a Unix socket holds 107 bytes.
const maxTempDir = 60

// Profile configures the process of one plugin.
type Profile = launch.Profile

// Options are the settings of a Set.
type Options struct {
	// Dir is the plugin directory. Required unless there is something to attach to.
	Dir string
	// Files are the only files of Dir, and with a Profile that has an image, that are used; empty for all. One that is not
	// there is Missing.
	Files []string
	// CacheDir is for programs that are taken from images. It is made when one is.
	CacheDir string
	// Attach are the addresses of plugins that somebody else has started, such as unix:///tmp/plugin.sock.
	Attach []string
	// TempDir is the directory for sockets and temporary files of plugins. Its path must be short. The Set makes it,
	// empty, and removes it when it ends. Defaults to a new temporary directory.
	TempDir string
	// Log takes the host's own records about plugins, and what the plugins log. Required.
	Log *slog.Logger
	// LogLevel is the lowest level that the plugins are asked to log. Defaults to info.
	LogLevel slog.Level
	// HostVersion is told to the plugins.
	HostVersion string
	// StartTimeout is how long a plugin may take for its start and handshake. Defaults to 30 seconds.
	StartTimeout time.Duration
	// StopGrace is how long a call may go on after its context has ended and the plugin was asked to stop, such as when
	// the host stops. Defaults to 30 seconds.
	StopGrace time.Duration
	// Silence is how long a plugin may answer no health check, or say nothing in a call, before it is killed. Defaults to
	// 30 seconds.
	Silence time.Duration
	// Configs are the configuration documents that are handed to plugins, as JSON, by the name that a plugin gives itself.
	// A plugin with a document that it cannot take is not used; one with an empty document, or none, works with defaults.
	Configs map[string][]byte
	// Profiles say how plugins are run, by the names of their files. A plugin without one is run by DefaultProfile, whose
	// Plugin is empty.
	Profiles       map[string]Profile
	DefaultProfile Profile
	// HostClusters give plugins, by the names that they give themselves, the access to the cluster that the host runs in.
	// A plugin that is not among them, or does not ask for it, does not get it.
	HostClusters map[string]HostCluster
	// Installation is told to all plugins; nil for none.
	Installation Installation
	// RequireSums tells that no program of Dir is run whose profile has no SHA256.
	RequireSums bool
	// Clock and Random default to the real ones. Random returns numbers from [0, 1).
	Clock  clock.WithTickerAndDelayedExecution
	Random func() float64
}

// Listener hears of what happens to plugins. Its methods must not block.
type Listener interface {
	// Changed: the state of some plugin, or what it serves, has changed.
	Changed()
	// WakeUp: a plugin says that a deploy item may have moved on.
	WakeUp(p *Plugin, namespace, name string)
}

// settings are what all plugins of a set share: the Options with their defaults, and what a Set adds.
type settings struct {
	Options

	tempDir  string // for a directory of each process
	listener Listener
	changed  func()
	claim    func(p *Plugin, info *Info) error
}

// launch returns the settings for processes.
func (s *settings) launch() launch.Settings {
	return launch.Settings{TempDir: s.tempDir, Timeout: s.StartTimeout, LogLevel: s.LogLevel, Clock: s.Clock}
}

// makeDir makes the place of sockets and temporary files.
func makeDir(dir string) (string, error) {
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "pergola-")
	} else if err = os.RemoveAll(dir); err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("create directory for plugin sockets: %w", err)
	case len(dir) > maxTempDir:
		err = fmt.Errorf("directory for plugin sockets: the path %q has more than %d bytes, which a socket's name has no "+
			"room for; set TMPDIR to a shorter one", dir, maxTempDir)
		return "", errors.Join(err, os.RemoveAll(dir))
	default:
		return dir, nil
	}
}
