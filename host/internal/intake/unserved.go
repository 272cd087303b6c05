package intake

import "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"

// maxUnserved bounds the logged types: users can invent any.
const maxUnserved = 100

// CountUnserved counts the items whose types no plugin serves, and logs the types; see plugin.Set.Unserved.
func (r *Router) CountUnserved() int {
	items := map[v1alpha1.DeployItemType]int{}
	r.Items.All(func(item *v1alpha1.DeployItem) { items[item.Spec.Type]++ })
	unserved := 0
	for itemType, n := range items {
		if r.Plugins.Unserved(itemType) != "" {
			r.logUnserved(itemType)
			unserved += n
		}
	}
	return unserved
}

// logUnserved logs, once for each type, that no plugin serves it.
func (r *Router) logUnserved(itemType v1alpha1.DeployItemType) {
	message := r.Plugins.Unserved(itemType)
	if message == "" {
		return
	}
	r.mu.Lock()
	first := !r.unserved[itemType] && len(r.unserved) < maxUnserved
	if first {
		r.unserved[itemType] = true
	}
	r.mu.Unlock()
	if first {
		r.Log.Info("ignoring deploy items of a type without a plugin", "why", message)
	}
}
