package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// settleTime is how long plugins are waited for before the others begin to be served. A plugin takes a tenth of a second to
// start; a slow machine may need ten times that.
const settleTime = 3 * time.Second

// maxSocketDir leaves room for the names that go-plugin makes up: the path of a Unix socket holds 107 bytes.
const maxSocketDir = 64

// Options are the settings of a Set.
type Options struct {
	// Dir is the plugin directory. Required.
	Dir string
	// Log takes the host's own records about plugins, and what the plugins log. Required.
	Log *slog.Logger
	// LogLevel is the lowest level that the plugins are asked to log. Defaults to info.
	LogLevel slog.Level
	// HostVersion is told to the plugins.
	HostVersion string
	// StartTimeout is how long a plugin may take for its start and handshake. Defaults to 30 seconds.
	StartTimeout time.Duration
	// StopGrace is how long a call may go on after the plugin was asked to stop. Defaults to 5 seconds.
	StopGrace time.Duration
	// Configs are the configuration documents that are handed to plugins, as JSON, by the name that a plugin gives itself. A plugin
	// with a document that it cannot take is not used; one with an empty document, or none, works with defaults.
	Configs map[string][]byte
	// Clock and Random default to the real ones. Random returns numbers from [0, 1).
	Clock  clock.Clock
	Random func() float64
}

// Listener hears of what happens to plugins. Its methods must not block.
type Listener interface {
	// Changed: the state of some plugin, or what it serves, has changed.
	Changed()
	// WakeUp: a plugin says that a deploy item may have moved on.
	WakeUp(p *Plugin, namespace, name string)
}

// settings are what all plugins of a set share.
type settings struct {
	socketDir    string
	logLevel     string
	hostVersion  string
	startTimeout time.Duration
	stopGrace    time.Duration
	configs      map[string][]byte
	clock        clock.Clock
	random       func() float64
	listener     Listener
	changed      func()
}

// Set are the plugins of a directory.
type Set struct {
	dir      string
	log      *slog.Logger
	settings *settings
	plugins  []*Plugin

	mu      sync.Mutex
	clashes map[*Plugin]error
	// overdue: who has not come through its first attempt to start by now is waited for no longer.
	overdue bool
}

// Open reads the plugin directory. It starts nothing; Run does. The error says that the directory cannot be read or that no
// place for sockets can be made; a bad file in the directory is no error but shows in Status.
func Open(o Options, listener Listener) (*Set, error) {
	candidates, err := discover(o.Dir)
	if err != nil {
		return nil, err
	}
	socketDir, err := os.MkdirTemp("", "pergola-")
	if err != nil {
		return nil, fmt.Errorf("create directory for plugin sockets: %w", err)
	}
	if len(socketDir) > maxSocketDir {
		return nil, errors.Join(
			fmt.Errorf("directory for plugin sockets: the path %q has more than %d bytes, which a socket's name has no room for; set TMPDIR to a shorter one", socketDir, maxSocketDir),
			os.Remove(socketDir))
	}
	s := &Set{dir: o.Dir, log: o.Log, clashes: map[*Plugin]error{}}
	s.settings = &settings{
		socketDir:    socketDir,
		logLevel:     o.LogLevel.String(),
		hostVersion:  o.HostVersion,
		startTimeout: orDefault(o.StartTimeout, 30*time.Second),
		stopGrace:    orDefault(o.StopGrace, 5*time.Second),
		configs:      o.Configs,
		clock:        o.Clock,
		random:       o.Random,
		listener:     listener,
		changed:      func() { s.settleClaims(); listener.Changed() },
	}
	if s.settings.clock == nil {
		s.settings.clock = clock.RealClock{}
	}
	if s.settings.random == nil {
		s.settings.random = rand.Float64
	}
	for _, c := range candidates {
		p := &Plugin{file: c.file, path: c.path, settings: s.settings, log: o.Log.With("plugin", c.file), state: Starting}
		if c.refusal != nil {
			p.state, p.problem, p.settled = Refused, c.refusal, true
			p.log.Error("plugin is refused", "error", c.refusal.Error())
		}
		s.plugins = append(s.plugins, p)
	}
	return s, nil
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// Run starts the plugins and keeps them running. It blocks until ctx ends and all plugins have ended, which takes a few
// seconds at most. It is called once.
func (s *Set) Run(ctx context.Context) error {
	if len(s.plugins) == 0 {
		s.log.Error("there are no plugins: put deployer binaries into the plugin directory and start again", "dir", s.dir)
	}
	var supervisors sync.WaitGroup
	for _, p := range s.plugins {
		if p.status().State != Refused {
			supervisors.Go(func() { p.supervise(ctx) })
		}
	}
	settling, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	<-settling.Done()
	s.stopSettling()
	if ctx.Err() == nil {
		s.warnOfUnusedConfigs()
	}
	<-ctx.Done()
	supervisors.Wait()
	if err := os.RemoveAll(s.settings.socketDir); err != nil {
		return fmt.Errorf("remove directory of plugin sockets: %w", err)
	}
	return nil
}

// stopSettling begins to serve the plugins that run, although others have not come through their first attempt to start.
func (s *Set) stopSettling() {
	s.mu.Lock()
	s.overdue = true
	s.mu.Unlock()
	s.settings.changed()
}

// warnOfUnusedConfigs tells of configuration for plugins that are not there, such as one whose name is mistyped.
func (s *Set) warnOfUnusedConfigs() {
	unused := maps.Clone(s.settings.configs)
	names := make([]string, 0, len(s.plugins))
	for _, p := range s.plugins {
		if name := p.Name(); name != "" {
			delete(unused, name)
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		s.log.Warn("there is configuration for a plugin that is not there, or has not started so far", "name", name, "plugins", names)
	}
}

// Status lists all plugins in order of their files.
func (s *Set) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Status, 0, len(s.plugins))
	for _, p := range s.plugins {
		status := p.status()
		if clash := s.clashes[p]; clash != nil {
			status.State, status.Problem = Refused, clash
		}
		list = append(list, status)
	}
	return list
}

// Ready is nil if there is a plugin and all of them are running. Otherwise it names each that is not, and why.
func (s *Set) Ready() error {
	if len(s.plugins) == 0 {
		return fmt.Errorf("no plugins in %s", s.dir)
	}
	var errs []error
	for _, status := range s.Status() {
		switch {
		case status.Problem != nil:
			errs = append(errs, fmt.Errorf("plugin %s: %w", status.File, status.Problem))
		case status.State != Running:
			errs = append(errs, fmt.Errorf("plugin %s: %s", status.File, strings.ToLower(string(status.State))))
		}
	}
	return errors.Join(errs...)
}

// Serving returns the plugins whose claims are settled: those that have run and that no other plugin clashes with. It is empty
// until every plugin has come through its first attempt to start, so that a clash is known before any call, but for a few
// seconds at most: a program that hangs must not keep the others from their work. Should it come to claim what another one
// serves, both are refused from then on.
func (s *Set) Serving() []*Plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	var serving []*Plugin
	for _, p := range s.plugins {
		p.mu.Lock()
		known, settled := p.info != nil, p.settled
		p.mu.Unlock()
		if !settled && !s.overdue {
			return nil
		}
		if known && s.clashes[p] == nil {
			serving = append(serving, p)
		}
	}
	return serving
}

// For returns the plugin that serves a deploy item type, or nil. Whether it is running at the moment is another matter.
func (s *Set) For(itemType v1alpha1.DeployItemType) *Plugin {
	for _, p := range s.Serving() {
		if slices.Contains(p.Info().Types, itemType) {
			return p
		}
	}
	return nil
}

// settleClaims finds out which plugins claim the same type or name.
func (s *Set) settleClaims() {
	s.mu.Lock()
	defer s.mu.Unlock()
	claimants := map[string][]*Plugin{}
	for _, p := range s.plugins {
		info := p.Info()
		if info.Name == "" {
			continue
		}
		claims := []string{fmt.Sprintf("the name %q", info.Name)}
		for _, t := range info.Types {
			claims = append(claims, fmt.Sprintf("deploy item type %q", t))
		}
		for _, claim := range claims {
			claimants[claim] = append(claimants[claim], p)
		}
	}
	for _, claim := range slices.Sorted(maps.Keys(claimants)) {
		plugins := claimants[claim]
		if len(plugins) < 2 {
			continue
		}
		for _, p := range plugins {
			if s.clashes[p] != nil {
				continue
			}
			s.clashes[p] = fmt.Errorf("refused: %s is claimed by %s; leave one of them in the plugin directory", claim, fileNames(plugins))
			s.log.Error("plugin is refused", "plugin", p.file, "error", s.clashes[p].Error())
		}
	}
}

func fileNames(plugins []*Plugin) string {
	names := make([]string, 0, len(plugins))
	for _, p := range plugins {
		names = append(names, p.file)
	}
	return strings.Join(names, " and ")
}
