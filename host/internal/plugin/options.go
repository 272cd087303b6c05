package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/sdk"
)

// maxTempDir leaves room for the names of go-plugin: the path of a Unix socket holds 107 bytes.
const maxTempDir = 60

// Profile configures the process of one plugin.
type Profile = launch.Profile

// Options are the settings of a Set.
type Options struct {
	// Dir is the plugin directory. Required without Attach.
	Dir string
	// Files restrict the plugins to these files of Dir or of images; empty for all. A plugin without its file is Missing.
	Files []string
	// CacheDir takes programs from images. It is created on demand.
	CacheDir string
	// Attach are the addresses of plugins started elsewhere, such as unix:///tmp/plugin.sock.
	Attach []string
	// TempDir is the directory for sockets and temporary files of plugins. Its path must be short. The Set creates it,
	// empty, and removes it at its end. Defaults to a new temporary directory.
	TempDir string
	// Log takes the host's records about plugins, and the plugins' own. Required.
	Log *slog.Logger
	// LogLevel is the level asked of the plugins. Defaults to info.
	LogLevel slog.Level
	// HostVersion is told to the plugins.
	HostVersion string
	// StartTimeout bounds the start of a plugin with its handshake. Required.
	StartTimeout time.Duration
	// StopGrace bounds a call after the end of its context, such as at the end of the host, while the plugin stops.
	// Required.
	StopGrace time.Duration
	// Silence bounds the time without an answer to a health check, or without a message in a call; then the plugin is
	// killed. Required.
	Silence time.Duration
	// Configs are the configuration documents of plugins, as JSON, by their names. A plugin is not used with a document
	// against its will; with an empty document, or none, it works with defaults.
	Configs map[string][]byte
	// Profiles configure the processes of plugins, by the names of their files. DefaultProfile, with an empty Plugin, is
	// for the others.
	Profiles       map[string]Profile
	DefaultProfile Profile
	// HostClusters grant plugins, by their names, the access to the cluster of the host. A plugin has to ask for it, too.
	HostClusters map[string]HostCluster
	// Installation is told to all plugins; nil for none.
	Installation Installation
	// RequireSums refuses programs without a SHA256 in their profile.
	RequireSums bool
	// Clock and Random default to the real ones. Random returns numbers from [0, 1).
	Clock  clock.WithTickerAndDelayedExecution
	Random func() float64
}

// Listener takes events of plugins, and answers questions. Its methods must not block, but for those with a context.
type Listener interface {
	// Changed: the state of a plugin, or its types, have changed.
	Changed()
	// WakeUp: a plugin reports that a deploy item may have moved on.
	WakeUp(p *Plugin, namespace, name string)
	// Needs reports whether there are deploy items for the plugin. Without them it stands by, see Standby.
	Needs(p *Plugin) bool
	// WatchedItems and CallFor: see session.Watch.
	WatchedItems(ctx context.Context, p *Plugin) ([]sdk.WatchedItem, error)
	CallFor(ctx context.Context, p *Plugin, item types.NamespacedName) (Call, error)
}

// settings are common to all plugins of a Set: its Options with their defaults, and its own.
type settings struct {
	Options

	tempDir  string // for a directory of each process
	listener Listener
	changed  func()
	claim    func(p *Plugin, info *Info) error
}

// every calls f in this interval until ctx ends.
func (s *settings) every(ctx context.Context, interval time.Duration, f func()) {
	ticker := s.Clock.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C():
			f()
		}
	}
}

// launch returns the settings for processes.
func (s *settings) launch() launch.Settings {
	return launch.Settings{TempDir: s.tempDir, Timeout: s.StartTimeout, LogLevel: s.LogLevel, Clock: s.Clock}
}

// makeDir creates the directory for sockets and temporary files, empty.
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
		err = fmt.Errorf("directory for plugin sockets: the path %q is too long for a Unix socket (max. %d bytes); set "+
			"TMPDIR to a shorter one", dir, maxTempDir)
		return "", errors.Join(err, os.RemoveAll(dir))
	default:
		return dir, nil
	}
}
