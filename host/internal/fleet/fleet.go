// Package fleet puts together what the replicas of a host say of their plugins, and tells where they differ. It asks nobody.
package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/host/internal/control"
)

// List are the plugins of all replicas.
type List struct {
	// Replicas in the order of their names.
	Replicas []Replica `json:"replicas"`
	// Differences between the replicas of one component that have answered, each a sentence; empty if they have the same plugins.
	Differences []string `json:"differences,omitempty"`
}

// Replica are the plugins of one replica.
type Replica struct {
	Name string `json:"name"`
	// Component of the host that it is a replica of: a host may be made of several Deployments with plugins of their own. Empty if it has none.
	Component string `json:"component,omitempty"`
	// Problem says why it could not be asked, or what is missing in its answer; empty if nothing is.
	Problem string           `json:"problem,omitempty"`
	Plugins []control.Plugin `json:"plugins,omitempty"`
	// Answered: the replica has said which plugins it has.
	Answered bool `json:"answered"`
}

// Unanswered counts the replicas that could not be asked.
func (l *List) Unanswered() int {
	n := 0
	for _, r := range l.Replicas {
		if !r.Answered {
			n++
		}
	}
	return n
}

// NewList puts the answers of replicas together.
func NewList(replicas []Replica) *List {
	list := &List{Replicas: slices.SortedFunc(slices.Values(replicas), func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })}
	components := map[string][]Replica{}
	for _, r := range list.Replicas {
		components[r.Component] = append(components[r.Component], r)
	}
	for _, name := range slices.Sorted(maps.Keys(components)) {
		list.Differences = append(list.Differences, differences(components[name])...)
	}
	return list
}

// differences are those between the replicas of one component.
func differences(replicas []Replica) (sentences []string) {
	files := map[string]bool{}
	for _, r := range replicas {
		for _, p := range r.Plugins {
			files[p.File] = true
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		sentences = append(sentences, differencesOf(file, replicas)...)
	}
	return sentences
}

// differencesOf are the replicas whose plugin of a file is not the one that most of them have.
func differencesOf(file string, replicas []Replica) []string {
	names := map[string][]string{} // of the replicas, by what they have
	for _, r := range replicas {
		if r.Answered {
			what := build(r.Plugins, file)
			names[what] = append(names[what], r.Name)
		}
	}
	usual := ""
	for _, what := range slices.Sorted(maps.Keys(names)) {
		if usual == "" || len(names[what]) > len(names[usual]) {
			usual = what
		}
	}
	var sentences []string
	for _, what := range slices.Sorted(maps.Keys(names)) {
		if what != usual {
			sentences = append(sentences, fmt.Sprintf("%s: found %s in %s, but %s in %s",
				file, what, strings.Join(names[what], ", "), usual, strings.Join(names[usual], ", ")))
		}
	}
	return sentences
}

// build says which program of a file somebody has.
func build(plugins []control.Plugin, file string) string {
	i := slices.IndexFunc(plugins, func(p control.Plugin) bool { return p.File == file })
	if i < 0 {
		return "none"
	}
	const digits = 12
	sum := plugins[i].SHA256
	return strings.TrimSpace(cmp.Or(plugins[i].Version, "an unknown version") + " with the checksum " + cmp.Or(sum[:min(len(sum), digits)], "that nobody knows"))
}
