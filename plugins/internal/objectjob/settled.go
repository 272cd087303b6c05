package objectjob

import (
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// settled are the objects applied by a job. Later calls of the job only read them: controllers react to the changes
// of the job, and to undo their reactions again and again would never end.
type settled struct {
	jobID   string
	objects map[object.Key]bool
}

// readSettled takes the marks from the entries of an inventory.
func readSettled(inventory *Inventory, jobID string) settled {
	s := settled{jobID: jobID}
	for _, e := range inventory.Entries() {
		if applied, ok := strings.CutSuffix(e.Applied, managedresource.SettledMark); ok {
			e.Applied = applied
			inventory.set(e)
			s.add(object.KeyOfReference(e.Resource))
		}
	}
	return s
}

func (s *settled) add(key object.Key) {
	if s.objects == nil {
		s.objects = map[object.Key]bool{}
	}
	s.objects[key] = true
}

// mark puts the marks into entries, and returns their job; empty without marks.
func (s *settled) mark(entries []managedresource.ManagedResourceStatus) (jobID string) {
	for i := range entries {
		if s.objects[object.KeyOfReference(entries[i].Resource)] {
			entries[i].Applied += managedresource.SettledMark
			jobID = s.jobID
		}
	}
	return jobID
}

// IsSettled reports whether the job has applied the object, in this call or an earlier one.
func (s *ProviderStatus) IsSettled(key object.Key) bool { return s.settled.objects[key] }

// Settled returns the entries of the objects applied by the job, in the order of the inventory.
func (s *ProviderStatus) Settled() []managedresource.ManagedResourceStatus {
	return slices.DeleteFunc(s.Inventory.Entries(), func(e managedresource.ManagedResourceStatus) bool {
		return !s.IsSettled(object.KeyOfReference(e.Resource))
	})
}

// withSettled returns wanted with the objects applied by the job: a later rendering of the same job may lack them.
func (s *ProviderStatus) withSettled(wanted map[object.Key]bool) map[object.Key]bool {
	all := maps.Clone(wanted)
	maps.Copy(all, s.settled.objects)
	return all
}
