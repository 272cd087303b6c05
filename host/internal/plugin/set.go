package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// settleTime bounds the wait for slow plugins before the others serve. A plugin starts in a tenth of a second, and in a
// hundred times that on a busy machine or with little CPU.
const settleTime = 10 * time.Second

// Set has the plugins of a directory, of images and attached ones.
type Set struct {
	dir      string
	log      *slog.Logger
	settings *settings
	plugins  []*Plugin // in order of files, the attached ones last
	passed   []string

	mu     sync.Mutex
	claims claims
}

// Open reads the plugin directory, and starts nothing. The error is about the directory or the place for sockets; a bad
// file in the directory shows in Status.
func Open(o Options, listener Listener) (*Set, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	s := &Set{dir: o.Dir, log: o.Log, claims: claims{by: map[string][]string{}}}
	s.settings = &settings{Options: o, listener: listener, changed: func() { s.changed(false) }, claim: s.claim}
	var files []string
	var err error
	if o.Dir != "" {
		files, s.passed, err = discover(o.Dir, func(name string) bool {
			_, configured := o.Profiles[name]
			return configured || slices.Contains(o.Files, name)
		})
		if err != nil {
			return nil, err
		}
		if len(s.passed) > 0 {
			o.Log.Warn("these are no plugins, because they are directories or not executable", "dir", o.Dir, "names", s.passed)
		}
		for file, profile := range o.Profiles { // plugins from images count as files of the directory
			if profile.Image != "" && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
		slices.Sort(files)
	}
	if s.settings.tempDir, err = makeDir(o.TempDir); err != nil {
		return nil, err
	}
	wanted := files
	if len(o.Files) > 0 {
		wanted = slices.Compact(slices.Sorted(slices.Values(o.Files)))
	}
	for _, file := range wanted {
		p := s.newPlugin(file)
		s.plugins = append(s.plugins, p)
		if !slices.Contains(files, file) {
			p.missing()
		}
	}
	for _, address := range slices.Sorted(slices.Values(o.Attach)) {
		s.plugins = append(s.plugins, s.newAttached(address))
	}
	return s, nil
}

func (s *Set) newPlugin(file string) *Plugin {
	p := s.newAttached(file)
	profile, ok := s.settings.Profiles[file]
	if !ok {
		profile = s.settings.DefaultProfile
	}
	p.profile, p.program = profile, launch.NewProgram(s.dir, file)
	return p
}

func (s *Set) newAttached(address string) *Plugin {
	return &Plugin{
		file: address, settings: s.settings, log: s.log.With("plugin", address),
		facts: facts{lifecycle: lifecycle{state: Starting}},
	}
}

// missing notes that the plugin has no file, so that it is never started.
func (p *Plugin) missing() {
	p.lifecycle.miss()
	p.problem = fmt.Errorf("the file is not in the plugin directory %s, but it is one of those that are to be used: "+
		"put it there, or take it out of pluginFiles in the host configuration, and restart the host", p.settings.Dir)
	p.log.Warn("plugin is missing", "error", p.problem.Error())
}

// Run starts the plugins and keeps them running. It blocks until ctx ends and, a few seconds later at most, all plugins
// have ended. It is called once.
func (s *Set) Run(ctx context.Context) error {
	present := slices.DeleteFunc(slices.Clone(s.plugins), func(p *Plugin) bool { return p.lifecycle.state == Missing })
	if len(present) == 0 {
		s.log.Error("there are no plugins: put deployer binaries into the plugin directory and restart the host", "dir",
			s.dir)
	}
	var supervisors sync.WaitGroup
	for _, p := range present {
		supervisors.Go(func() { p.supervise(ctx) })
	}

	select {
	case <-s.settings.Clock.After(settleTime):
		s.changed(true) // running plugins serve, whatever becomes of the others
		s.warnOfUnusedConfigs()
	case <-ctx.Done():
	}
	supervisors.Wait()
	if err := s.Close(); err != nil { // no reason for the host to fail
		s.log.Warn("leftover files of plugins cannot be removed", "error", err.Error())
	}
	return nil
}

// Close removes the directory of Open, for a Set without Run.
func (s *Set) Close() error { return os.RemoveAll(s.settings.tempDir) }

// Started reports whether the first attempt to start is over for every plugin, so that the types of each are known.
func (s *Set) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims.settled && s.allSettled()
}

// PassedOver returns the names of directories and of files without permission to execute in the plugin directory, but
// for hidden ones.
func (s *Set) PassedOver() []string { return s.passed }

// Unserved returns a sentence about a type without a plugin, with the served types; empty for a served type, and as
// long as a plugin may be about to serve it.
func (s *Set) Unserved(itemType v1alpha1.DeployItemType) string {
	if !s.Started() || s.For(itemType) != nil {
		return ""
	}
	var types []string
	for _, p := range s.Serving() {
		for _, t := range p.Info().Types {
			types = append(types, strconv.Quote(string(t)))
		}
	}
	s.mu.Lock()
	contested := s.claims.contested[typeClaim(itemType)]
	s.mu.Unlock()
	if contested != "" {
		return "no plugin here serves it: " + contested
	}
	slices.Sort(types)
	served := cmp.Or(strings.Join(types, ", "), "none")
	return fmt.Sprintf("no plugin here serves type %q; served are %s", itemType, served)
}

// changed calls the listener, and settles the claims after the first attempt to start of every plugin; if overdue,
// without the others.
func (s *Set) changed(overdue bool) {
	s.mu.Lock()
	var refused map[string]error
	if !s.claims.settled && (overdue || s.allSettled()) {
		refused = s.claims.settle()
	}
	s.mu.Unlock()
	for _, p := range s.plugins {
		if err := refused[p.file]; err != nil {
			p.refuse(launch.Refuse(err))
		}
	}
	s.settings.listener.Changed()
}

// allSettled reports whether the first attempt to start is over for every plugin.
func (s *Set) allSettled() bool {
	for _, p := range s.plugins {
		if !p.hasSettled() {
			return false
		}
	}
	return true
}

func (s *Set) claim(p *Plugin, info *Info) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims.make(p.file, claimsOf(info))
}

// Status lists all plugins in the order of their files, with the Missing ones, and the attached ones last.
func (s *Set) Status() []Status {
	var list []Status
	for _, p := range s.plugins {
		list = append(list, p.status())
	}
	return list
}

// Details lists all plugins in the order of Status.
func (s *Set) Details() []Detail {
	var list []Detail
	for _, p := range s.plugins {
		list = append(list, p.detail())
	}
	return list
}

// warnOfUnusedConfigs logs configuration without a plugin, such as for a mistyped name.
func (s *Set) warnOfUnusedConfigs() {
	unused := maps.Clone(s.settings.Configs)
	var names []string
	for _, p := range s.plugins {
		if name := p.Name(); name != "" {
			delete(unused, name)
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		s.log.Warn("there is configuration for a plugin that is not there, or has not started so far", "name", name,
			"plugins", names)
	}
}

// Ready returns nil if there is a plugin and each is running, or about to start again after its first crashes. The
// error names each other one with its problem.
func (s *Set) Ready() error {
	all := s.Status()
	if len(all) == 0 {
		return fmt.Errorf("no plugins in %s", s.dir)
	}
	var errs []error
	for _, status := range all {
		switch {
		case status.Ready():
		case status.Problem != nil:
			errs = append(errs, fmt.Errorf("plugin %s: %w", status.File, status.Problem))
		default:
			errs = append(errs, fmt.Errorf("plugin %s: %s", status.File, strings.ToLower(string(status.State))))
		}
	}
	return errors.Join(errs...)
}

// Admitted returns the plugins with undisputed claims. It is empty until the first attempt to start is over for every
// plugin, so that a clash is known before any call; but for a few seconds at most, so that a program which hangs does
// not keep the others from their work.
func (s *Set) Admitted() []*Plugin {
	s.mu.Lock()
	defer s.mu.Unlock()
	var admitted []*Plugin
	for _, p := range s.plugins {
		if s.claims.has(p.file, p.Name()) {
			admitted = append(admitted, p)
		}
	}
	return admitted
}

// Serving returns the admitted plugins with deploy item types; others have hooks only.
func (s *Set) Serving() []*Plugin {
	return slices.DeleteFunc(s.Admitted(), func(p *Plugin) bool { return len(p.Info().Types) == 0 })
}

// For returns the plugin of a deploy item type, or nil. It need not be running at the moment.
func (s *Set) For(itemType v1alpha1.DeployItemType) *Plugin {
	for _, p := range s.Serving() {
		if slices.Contains(p.Info().Types, itemType) {
			return p
		}
	}
	return nil
}

// Hooking returns the plugins with hooks for deploy items of a type, in the order of their names, whether they run at
// the moment or not. It is empty before the claims are settled.
func (s *Set) Hooking(itemType v1alpha1.DeployItemType) []*Plugin {
	var hooking []*Plugin
	for _, p := range s.Admitted() {
		if slices.Contains(p.Info().HookedTypes, itemType) {
			hooking = append(hooking, p)
		}
	}
	slices.SortFunc(hooking, func(a, b *Plugin) int { return cmp.Compare(a.Name(), b.Name()) })
	return hooking
}
