package itemstate

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// State is the state of an item in this replica.
type State string

// The states of an item.
const (
	Unknown State = ""
	Idle    State = "idle"    // nothing to do at the version
	Queued  State = "queued"  // the job waits for its pick-up or for a slot
	Running State = "running" // the job was picked up
	Ended   State = "ended"   // the job has ended; ShouldReconcile hooks come next
)

// Entry is the memory of one item.
type Entry struct {
	UID   types.UID
	State State
	// Version is the newest resourceVersion read or written by this replica.
	Version string
	// Outdated: the item is to be read, whatever version the cache has. It has a version unknown to this replica, or a
	// hook was not asked.
	Outdated bool
	Job
	Hooks Hooks
}

// Job is the memory of a job.
type Job struct {
	job.Progress
	// Plugin is the plugin of a job, or of a reconcile with an error.
	Plugin string
	// Woken: an event during a reconcile asks for another one soon.
	Woken bool
	// Worked is the time of the last reconcile.
	Worked time.Time
}

// IsJob reports whether a job is queued or running here, or has just ended.
func (e Entry) IsJob() bool { return e.State == Queued || e.State == Running || e.State == Ended }

// KeepsLock reports whether the lock of the item is kept until its next reconcile.
func (e Entry) KeepsLock() bool { return e.State == Running || e.State == Ended && !e.Outdated }

// IdleAt is the version at which the item has nothing to do; empty if it has, or that is unknown.
func (e Entry) IdleAt() string {
	if e.State != Idle || e.Outdated {
		return ""
	}
	return e.Version
}

// Knows reports whether the entry is at least as new as a version of the item.
func (e Entry) Knows(version string) bool {
	return e.State != Unknown && !e.Outdated && !contract.Newer(version, e.Version)
}

// see brings the entry to the version of an item with a job.
func (e *Entry) see(item *v1alpha1.DeployItem) {
	e.UID, e.Version, e.Outdated, e.State = item.UID, item.ResourceVersion, false, stateOf(item)
}

// wake makes the job due, and returns its plugin.
func (e *Entry) wake(now time.Time) (plugin string) {
	e.Woken, e.Due, e.WaitsFor = true, now, ""
	return e.Plugin
}

// stateOf is the state of an item with a job. A job that is queued for a slot has no lock.
func stateOf(item *v1alpha1.DeployItem) State {
	switch {
	case contract.Finished(item):
		return Ended
	case contract.PickedUp(item) && !contract.IsQueued(item):
		return Running
	default:
		return Queued
	}
}

// Hooks is the memory of the hooks for an item.
type Hooks struct {
	// Asked is the pluginhook.Set.Asking of the ShouldReconcile hooks that ran for the idle item; empty for none.
	Asked string
	// Again is the time of the next reconcile at the request of hooks; Begins is the beginning of the job requested by
	// them. Zero for no such time.
	Again, Begins time.Time
	// Raised is the generation of the item at the last report about hooks with too many jobs.
	Raised int64
	// Crashes counts the crashes of plugins during a hook before a job could note them.
	Crashes int
	// Paused is the end of the pause because of these crashes.
	Paused time.Time
}

// Settled reports whether no hook has to run before a change of the item or the time again, the next reconcile at the
// request of hooks.
func (h Hooks) Settled(hooks pluginhook.Set, again, now time.Time) bool {
	asked := h.Asked == hooks.Asking() || !hooks.Has(sdkhook.ShouldReconcile)
	return asked && (again.IsZero() || now.Before(again))
}

// IsEmpty reports whether nothing is remembered.
func (h Hooks) IsEmpty() bool { return h == (Hooks{}) }
