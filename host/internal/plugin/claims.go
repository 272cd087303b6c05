package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// claims are what plugins claim for themselves: a name, and types of deploy items.
//
// Nobody serves before the claims are settled. Until then a claim that two plugins make is refused to both, because
// which of them an item reaches must not depend on which one started first. Afterwards a claim belongs to the plugin
// that has it: whoever comes to make it later is refused alone, so that no plugin can take another one's items away by
// breaking off and coming back as something else.
type claims struct {
	settled bool
	by      map[*Plugin]*Info
}

// make notes what a plugin claims. The error says that another one has that already.
func (c *claims) make(p *Plugin, info *Info) error {
	if c.settled {
		for _, other := range c.inOrder() {
			if claim, clash := clashOf(info, c.by[other]); clash && other != p {
				return fmt.Errorf("%s is that of %s, which serves it already; leave one of them in the plugin directory", claim,
					other.file)
			}
		}
	}
	c.by[p] = info
	return nil
}

// settle ends the time in which claims are equal, and returns why which plugins are refused. What they claim is free
// then.
func (c *claims) settle() map[*Plugin]error {
	c.settled = true
	refused := map[*Plugin]error{}
	plugins := c.inOrder()
	for i, p := range plugins {
		for _, other := range plugins[i+1:] {
			claim, clash := clashOf(c.by[p], c.by[other])
			if !clash {
				continue
			}
			err := fmt.Errorf("%s is claimed by %s and %s; leave one of them in the plugin directory", claim, p.file, other.file)
			for _, one := range []*Plugin{p, other} {
				if refused[one] == nil {
					refused[one] = err
				}
			}
		}
	}
	for p := range refused {
		delete(c.by, p)
	}
	return refused
}

// has tells whether a plugin may serve what it claims.
func (c *claims) has(p *Plugin) bool { return c.settled && c.by[p] != nil }

func (c *claims) inOrder() []*Plugin {
	return slices.SortedFunc(maps.Keys(c.by), func(a, b *Plugin) int { return strings.Compare(a.file, b.file) })
}

// claimsOf are the claims of one plugin, as messages name them.
func claimsOf(info *Info) []string {
	all := []string{fmt.Sprintf("the name %q", info.Name)}
	for _, t := range info.Types {
		all = append(all, fmt.Sprintf("deploy item type %q", t))
	}
	return all
}

// clashOf finds a claim that both make.
func clashOf(a, b *Info) (claim string, clash bool) {
	of := claimsOf(b)
	for _, claim := range claimsOf(a) {
		if slices.Contains(of, claim) {
			return claim, true
		}
	}
	return "", false
}
