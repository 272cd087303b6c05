package plugin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// Reloaded is what a reload has done with one plugin.
type Reloaded struct {
	// File of the plugin, or the address of one that is attached.
	File string
	// Action is what was done.
	Action Action
	// Err is why it was not done; nil if it was.
	Err error
}

// Action is what a reload does with a plugin.
type Action string

// The actions.
const (
	// ActionAdd: a file that is new was started.
	ActionAdd Action = "add"
	// ActionRestart: a new process takes the calls. The one before ends when its calls have; if the new one does not come to run, the
	// old one goes on.
	ActionRestart Action = "restart"
	// ActionRemove: the file is gone, and so is the plugin.
	ActionRemove Action = "remove"
)

// errNotRun says that the plugins are not run yet, or not any more.
var errNotRun = errors.New("reload plugins: the host is starting or stopping")

// Reload reads the plugin directory anew: it starts plugins whose files are new, ends those whose files are gone, and
// puts new processes in the place of those whose files have changed. Plugins that do not run are tried again at once. The rest goes on
// untouched, unless files names it. Reload returns what was done, and blocks until that is done: for the start of plugins, and the calls
// under way of plugins that are removed. Calls of a process that was replaced go on for a while afterwards.
func (s *Set) Reload(ctx context.Context, files ...string) ([]Reloaded, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	found, err := s.files()
	if err != nil {
		return nil, err
	}
	if !s.isRun() {
		return nil, errNotRun
	}
	done := &reloads{}
	s.remove(ctx, found, done)
	before := s.all()
	s.add(found)

	var all sync.WaitGroup
	for _, p := range s.all() {
		if !slices.Contains(before, p) {
			all.Go(func() { done.add(p, ActionAdd, p.firstAttempt(ctx)) })
			continue
		}
		all.Go(func() { s.reload(ctx, p, slices.Contains(files, p.file), done) })
	}
	all.Wait()
	s.warnOfMissing()
	s.changed() // a plugin that is missing, or no longer so, has no supervisor to tell it
	return done.inOrder(), ctx.Err()
}

// reload reloads one plugin, if it is named or there is a reason to.
func (s *Set) reload(ctx context.Context, p *Plugin, named bool, done *reloads) {
	running := p.status().State == Running
	if !running || named || p.source.changed() {
		done.add(p, ActionRestart, p.reload(ctx))
	}
}

func (s *Set) isRun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.supervise != nil
}

// remove ends the plugins whose files are gone.
func (s *Set) remove(ctx context.Context, found []string, done *reloads) {
	var ending sync.WaitGroup
	for _, p := range s.all() {
		if p.source.attached() || slices.Contains(found, p.file) {
			continue
		}
		ending.Go(func() {
			p.end(ctx)
			s.mu.Lock()
			s.claims.drop(p)
			s.plugins = slices.DeleteFunc(s.plugins, func(q *Plugin) bool { return q == p })
			s.mu.Unlock()
			s.changed()
			done.add(p, ActionRemove, nil)
		})
	}
	ending.Wait()
}

// add starts the plugins whose files are new.
func (s *Set) add(found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.supervise == nil { // the host is stopping
		return
	}
	for _, file := range found {
		if slices.ContainsFunc(s.plugins, func(p *Plugin) bool { return p.file == file }) {
			continue
		}
		p := s.newPlugin(file)
		at, _ := slices.BinarySearchFunc(s.plugins, p, inOrder)
		s.plugins = slices.Insert(s.plugins, at, p)
		s.supervise(p)
	}
}

// inOrder orders plugins by their files, those that are attached last.
func inOrder(a, b *Plugin) int {
	switch {
	case a.source.attached() == b.source.attached():
		return strings.Compare(a.file, b.file)
	case a.source.attached():
		return 1
	default:
		return -1
	}
}

// reloads collects what was done.
type reloads struct {
	mu   sync.Mutex
	done []Reloaded
}

func (r *reloads) add(p *Plugin, action Action, err error) {
	if err != nil {
		p.log.Error("plugin was not reloaded", "action", string(action), "error", err.Error())
	} else {
		p.log.Info("plugin was reloaded", "action", string(action))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = append(r.done, Reloaded{File: p.file, Action: action, Err: err})
}

func (r *reloads) inOrder() []Reloaded {
	slices.SortFunc(r.done, func(a, b Reloaded) int { return strings.Compare(a.File, b.File) })
	return r.done
}
