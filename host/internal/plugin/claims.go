package plugin

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// claims are the names and deploy item types of plugins, by their files.
//
// No plugin serves before the claims are settled. Until then a claim of two plugins is refused to both, so that the
// order of starts does not matter. Afterwards a claim belongs to its plugin, and a later one is refused alone: a plugin
// cannot take the items of another by ending and coming back with other claims.
type claims struct {
	settled bool
	by      map[string][]string // files; several only before the claims are settled
	// contested has a sentence for people about each claim of several plugins.
	contested map[string]string
}

// make adds claims of a plugin. The error reports that one is taken.
func (c *claims) make(file string, all []string) error {
	for _, claim := range all {
		if others := c.by[claim]; c.settled && len(others) > 0 && others[0] != file {
			return fmt.Errorf("%s is already taken by %s; remove one of the two plugins from the plugin directory", claim,
				others[0])
		}
	}
	for _, claim := range all {
		if !slices.Contains(c.by[claim], file) {
			c.by[claim] = append(c.by[claim], file)
		}
	}
	return nil
}

// settle refuses each claim of several plugins, and returns the refused plugins with the reason. Their claims become
// free.
func (c *claims) settle() map[string]error {
	c.settled, c.contested = true, map[string]string{}
	refused := map[string]error{}
	for _, claim := range slices.Sorted(maps.Keys(c.by)) {
		files := slices.Sorted(slices.Values(c.by[claim]))
		if len(files) == 1 {
			continue
		}
		c.contested[claim] = fmt.Sprintf("%s is claimed by %s; leave one of them in the plugin directory", claim,
			strings.Join(files, " and "))
		for _, file := range files {
			refused[file] = errors.New(c.contested[claim])
			for other := range c.by { // a refused plugin serves none of its types
				if slices.Contains(c.by[other], file) {
					c.contested[other] = c.contested[claim]
				}
			}
		}
	}
	for claim, files := range c.by {
		c.by[claim] = slices.DeleteFunc(files, func(file string) bool { return refused[file] != nil })
	}
	return refused
}

// has reports whether a plugin may serve its claims.
func (c *claims) has(file, name string) bool {
	return c.settled && slices.Contains(c.by[nameClaim(name)], file)
}

func nameClaim(name string) string { return fmt.Sprintf("the name %q", name) }

// claimsOf returns the claims of one plugin, in the words of messages.
func claimsOf(info *Info) []string {
	all := []string{nameClaim(info.Name)}
	for _, t := range info.Types {
		all = append(all, typeClaim(t))
	}
	return all
}

func typeClaim(t v1alpha1.DeployItemType) string { return fmt.Sprintf("deploy item type %q", t) }
