package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// withMissing returns all plugins and, as ones that are never started, those that are to be used and are not there.
func (s *Set) withMissing() []*Plugin {
	plugins := slices.Clone(s.plugins)
	for _, file := range s.only {
		if slices.ContainsFunc(plugins, func(p *Plugin) bool { return p.file == file }) {
			continue
		}
		p := s.newPlugin(file)
		p.lifecycle.state = Missing
		p.problem = fmt.Errorf("the file is not in the plugin directory %s, but it is one of those that are to be used: put it there, "+
			"or take it out of pluginFiles in the host configuration, and restart the host", s.dir)
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

func quoted(texts []string) string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(list, ", ")
}
