package apply

import "github.com/pergola-deploy/pergola/sdk/api/managedresource"

// Rule is what a policy says about an object. The zero value leaves the object alone.
type Rule struct {
	// Managed: the object is created if it is missing, and the inventory has it.
	Managed bool
	// OursOnly: an object that exists is managed only as long as it has the deploy item's label.
	OursOnly bool
	// Updated: an object that exists is changed to its manifest, and repaired.
	Updated bool
	// Deleted: the object goes when it is not wanted any more, and may be replaced.
	Deleted bool
}

// rules is the one place that says what policies mean, to Run, Diff and package prune.
var rules = map[managedresource.Policy]Rule{
	managedresource.PolicyManage:    {Managed: true, OursOnly: false, Updated: true, Deleted: true},
	managedresource.PolicyFallback:  {Managed: true, OursOnly: true, Updated: true, Deleted: true},
	managedresource.PolicyKeep:      {Managed: true, OursOnly: false, Updated: true, Deleted: false},
	managedresource.PolicyImmutable: {Managed: true, OursOnly: false, Updated: false, Deleted: true},
	managedresource.PolicyIgnore:    {},
}

// RuleOf returns the rule of a policy; that of manage, the default, for one that is not known.
func RuleOf(p managedresource.Policy) Rule {
	if rule, ok := rules[p]; ok {
		return rule
	}
	return rules[managedresource.PolicyManage]
}
