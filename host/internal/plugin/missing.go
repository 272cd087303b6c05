package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// missing returns those that the lock file says have hooks for items of others and that are not among plugins: nothing else would say
// what these items wait for. Of a Set with Options.Files nobody expects more than those.
func (s *Set) missing(plugins []*Plugin) []lockfile.Plugin {
	return slices.DeleteFunc(s.settings.verification.entries(), func(entry lockfile.Plugin) bool {
		return len(entry.HookedTypes) == 0 || len(s.only) > 0 && !slices.Contains(s.only, entry.File) ||
			slices.ContainsFunc(plugins, func(p *Plugin) bool { return p.file == entry.File || p.Name() == entry.Name })
	})
}

// withMissing returns all plugins and, as ones that are never started, those that are missing: by the lock file, or because they are to be
// used.
func (s *Set) withMissing() []*Plugin {
	plugins := s.all()
	for _, entry := range s.missing(plugins) {
		p := s.newPlugin(entry.File)
		p.lifecycle.state = Missing
		p.problem = fmt.Errorf("the file is not in the plugin directory, but the lock file says that it is the plugin %q, whose hooks run for "+
			"deploy items of type %s: these wait; put the file back, or take it out of the lock file, and reload the plugins",
			entry.Name, quoted(entry.HookedTypes))
		plugins = append(plugins, p)
	}
	for _, file := range s.only {
		if slices.ContainsFunc(plugins, func(p *Plugin) bool { return p.file == file }) {
			continue
		}
		p := s.newPlugin(file)
		p.lifecycle.state = Missing
		p.problem = fmt.Errorf("the file is not in the plugin directory %s, but it is one of those that are to be used: put it there and reload the plugins, "+
			"or take it out of pluginFiles in the host configuration and restart the host", s.dir)
		plugins = append(plugins, p)
	}
	slices.SortFunc(plugins, inOrder)
	return plugins
}

// warnOfMissing tells of plugins that are missing.
func (s *Set) warnOfMissing() {
	for _, p := range s.withMissing() {
		if status := p.status(); status.State == Missing {
			p.log.Warn("plugin is missing", "error", status.Problem.Error())
		}
	}
}

// warnOfUnusedConfigs tells of configuration for plugins that are not there, such as one whose name is mistyped.
func (s *Set) warnOfUnusedConfigs() {
	unused := maps.Clone(s.settings.configs)
	var names []string
	for _, p := range s.all() {
		if name := p.Name(); name != "" {
			delete(unused, name)
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		s.log.Warn("there is configuration for a plugin that is not there, or has not started so far", "name", name, "plugins", names)
	}
}

// lockedOnly returns, as plugins that do not run, those that the lock file says have hooks for items of others of a type and that are not
// admitted. Which types of hooks they have is not known, so it may be any.
func (s *Set) lockedOnly(itemType v1alpha1.DeployItemType) []*Plugin {
	var absent []*Plugin
	admitted := s.Admitted()
	missing := s.missing(s.all())
	for _, entry := range s.settings.verification.entries() {
		is := func(p *Plugin) bool { return p.Name() == entry.Name }
		if !slices.Contains(entry.HookedTypes, string(itemType)) || slices.ContainsFunc(admitted, is) {
			continue
		}
		why := "`pergola plugins list` says why"
		if slices.ContainsFunc(missing, func(m lockfile.Plugin) bool { return m.File == entry.File }) {
			why = fmt.Sprintf("its file %q is not in the plugin directory", entry.File)
		}
		info := &Info{Name: entry.Name, Version: entry.Version, HookedTypes: []v1alpha1.DeployItemType{itemType}}
		for _, t := range hook.Types() {
			info.Capabilities.HookTypes = append(info.Capabilities.HookTypes, string(t))
		}
		absent = append(absent, &Plugin{file: entry.File, info: info, unused: fmt.Errorf(
			"%w: the lock file says that it has hooks for deploy items of type %q, but it is not in use: %s", ErrNotRunning, itemType, why)})
	}
	return absent
}

func quoted(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(list, ", ")
}
