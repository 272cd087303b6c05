package objects

import "github.com/pergola-deploy/pergola/sdk/api/managedresource"

// Rule is the meaning of a policy for an object. The zero value leaves the object alone.
type Rule struct {
	// Managed: the object is created if it is missing, and the inventory has it.
	Managed bool
	// OursOnly: an existing object is managed only as long as it has the deploy item's label.
	OursOnly bool
	// Updated: an existing object is changed to its manifest, and repaired.
	Updated bool
	// Deleted: the object goes when it is not wanted any more, and may be replaced.
	Deleted bool
}

// rules are the meanings of the policies, in one place for packages apply, observe and prune.
var rules = map[managedresource.Policy]Rule{
	managedresource.PolicyManage:    {Managed: true, OursOnly: false, Updated: true, Deleted: true},
	managedresource.PolicyFallback:  {Managed: true, OursOnly: true, Updated: true, Deleted: true},
	managedresource.PolicyKeep:      {Managed: true, OursOnly: false, Updated: true, Deleted: false},
	managedresource.PolicyImmutable: {Managed: true, OursOnly: false, Updated: false, Deleted: true},
	managedresource.PolicyIgnore:    {},
}

// RuleOf returns the rule of a policy; for an unknown one the rule of manage, the default.
func RuleOf(p managedresource.Policy) Rule {
	if rule, ok := rules[p]; ok {
		return rule
	}
	return rules[managedresource.PolicyManage]
}
