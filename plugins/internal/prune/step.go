package prune

import "slices"

// step is a group with its managed objects.
type step struct {
	group group
	items []item
	// failures are the errors of sorting, about objects the group may take.
	failures []failure
	// doubts are about objects of kinds not served by the target: they are waited for.
	doubts []failure
}

// anyDeletesAll reports whether a step deletes unmanaged objects.
func anyDeletesAll(steps []step) bool {
	return slices.ContainsFunc(steps, func(s step) bool { return s.group.all })
}
