package registration

import (
	"cmp"
	"slices"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// inOrder puts the registration first that wins where several name the same type.
func inOrder(a, b v1alpha1.DeployerRegistration) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// claims has the name of the registration whose hook is in force for a type. A type without a hook is not in it.
type claims map[v1alpha1.DeployItemType]string

// claimsOf gives each type to the first registration with a hook that names it. registrations are in the order of inOrder.
func claimsOf(registrations []v1alpha1.DeployerRegistration) claims {
	settled := claims{}
	for i := range registrations {
		if registrations[i].Spec.Hook == nil {
			continue
		}
		for _, t := range registrations[i].Spec.Types {
			if _, taken := settled[t]; !taken {
				settled[t] = registrations[i].Name
			}
		}
	}
	return settled
}

// rival is a type that another registration has.
type rival struct {
	itemType v1alpha1.DeployItemType
	owner    string
}

// rivals are the types of a registration with a hook that others have, sorted.
func (c claims) rivals(r *v1alpha1.DeployerRegistration) []rival {
	if r.Spec.Hook == nil {
		return nil
	}
	var rivals []rival
	for _, t := range r.Spec.Types {
		if owner := c[t]; owner != r.Name {
			rivals = append(rivals, rival{itemType: t, owner: owner})
		}
	}
	slices.SortFunc(rivals, func(a, b rival) int { return cmp.Compare(a.itemType, b.itemType) })
	return rivals
}
