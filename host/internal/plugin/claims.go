package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// claims are what plugins claim for themselves: a name, and types of deploy items.
//
// Nobody serves before the claims are settled. Until then a claim that two plugins make is refused to both, because
// which of them an item reaches must not depend on which one started first. Afterwards a claim belongs to the plugin
// that has it: whoever comes to make it later is refused alone, so that no plugin can take another one's items away by
// breaking off and coming back as something else.
type claims struct {
	settled bool
	by      map[string][]*Plugin // several only before they are settled
	// contested says of each claim that several plugins have made before which they are, for people.
	contested map[string]string
}

// make notes what a plugin claims. The error says that another one has that already.
func (c *claims) make(p *Plugin, info *Info) error {
	all := claimsOf(info)
	for _, claim := range all {
		if others := c.by[claim]; c.settled && len(others) > 0 && others[0] != p {
			return fmt.Errorf("%s is that of %s, which serves it already; leave one of them in the plugin directory", claim,
				others[0].file)
		}
	}
	for _, claim := range all {
		if !slices.Contains(c.by[claim], p) {
			c.by[claim] = append(c.by[claim], p)
		}
	}
	return nil
}

// settle ends the time in which claims are equal, and returns why which plugins are refused. What they claim is free
// then.
func (c *claims) settle() map[*Plugin]error {
	c.settled, c.contested = true, map[string]string{}
	refused := map[*Plugin]error{}
	for _, claim := range slices.Sorted(maps.Keys(c.by)) {
		plugins := c.by[claim]
		if len(plugins) == 1 {
			continue
		}
		var files []string
		for _, p := range plugins {
			files = append(files, p.file)
		}
		slices.Sort(files)
		c.contested[claim] = fmt.Sprintf("%s is claimed by %s; leave one of them in the plugin directory", claim,
			strings.Join(files, " and "))
		for _, p := range plugins {
			refused[p] = errors.New(c.contested[claim])
			for _, itemType := range p.Info().Types { // what it would serve is not served, whatever it is refused for
				c.contested[typeClaim(itemType)] = c.contested[claim]
			}
		}
	}
	for claim, plugins := range c.by {
		c.by[claim] = slices.DeleteFunc(plugins, func(p *Plugin) bool { return refused[p] != nil })
	}
	return refused
}

// has reports whether a plugin that has said who it is may serve what it claims.
func (c *claims) has(p *Plugin) bool {
	return c.settled && slices.Contains(c.by[nameClaim(p.Name())], p)
}

func nameClaim(name string) string { return fmt.Sprintf("the name %q", name) }

// claimsOf are the claims of one plugin, as messages name them.
func claimsOf(info *Info) []string {
	all := []string{nameClaim(info.Name)}
	for _, t := range info.Types {
		all = append(all, typeClaim(t))
	}
	return all
}

func typeClaim(t v1alpha1.DeployItemType) string { return fmt.Sprintf("deploy item type %q", t) }
