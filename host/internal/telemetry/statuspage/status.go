package statuspage

import (
	"time"

	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// maxInProgress is the number of running jobs on the page.
const maxInProgress = 500

// Sources have the content of the page. All functions may be called concurrently at any time, and do not block for
// long.
type Sources struct {
	// Host has the constant fields: all but NotReady. Required.
	Host Host
	// Ready returns an error if the host cannot work. Required.
	Ready func() error
	// Plugins of the host. Required.
	Plugins func() *PluginList
	// Workers of the plugins. Required.
	Workers func() []telemetry.Workers
	// Jobs of the replica. Required.
	Jobs *Jobs
	// Locks of the replica, the oldest first; nil if the host works without.
	Locks func() []lock.Held
	// Replicas of the host; nil if it is the only one.
	Replicas func() []lock.Member
}

// Status is the content of the page.
type Status struct {
	// Time of the status.
	Time time.Time `json:"time"`
	Host Host      `json:"host"`
	// Replicas are the live replicas of the host, in order of their names; left out if it works without locks.
	Replicas []lock.Member `json:"replicas,omitempty"`
	// Plugins of this replica.
	Plugins *PluginList `json:"plugins"`
	// Workers of each plugin.
	Workers []telemetry.Workers `json:"workers"`
	// Locks of this replica, the oldest first; left out if it works without.
	Locks []lock.Held `json:"locks,omitempty"`
	// InProgress are the running jobs of this replica, the oldest first, and MoreInProgress is the number of those left
	// out. Errors are the last failed jobs, the newest first.
	InProgress     []Job `json:"inProgress"`
	MoreInProgress int   `json:"moreInProgress,omitempty"`
	Errors         []Job `json:"errors"`
}

// Host identifies the replica.
type Host struct {
	// Identity of the installation, and Version of the program.
	Identity string `json:"identity"`
	Version  string `json:"version"`
	// Pod of the replica, with its namespace; empty outside of pods.
	Pod       string `json:"pod,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Standalone reports whether it sets jobs itself.
	Standalone bool `json:"standalone"`
	// Started is the start time of the process.
	Started time.Time `json:"started"`
	// NotReady is the reason why it cannot work; empty if it can.
	NotReady string `json:"notReady,omitempty"`
}

// status gathers everything.
func (s Sources) status() *Status {
	status := &Status{
		Time: time.Now().UTC(), Host: s.Host, Plugins: s.Plugins(), Workers: append([]telemetry.Workers{}, s.Workers()...),
		InProgress: []Job{}, Errors: append([]Job{}, s.Jobs.Failed()...),
	}
	if err := s.Ready(); err != nil {
		status.Host.NotReady = err.Error()
	}
	if s.Replicas != nil {
		status.Replicas = s.Replicas()
	}
	held := s.locks(status)
	for _, job := range s.Jobs.Running() {
		if s.Locks == nil || held[job.UID] {
			status.InProgress = append(status.InProgress, job)
		}
	}
	status.MoreInProgress = max(0, len(status.InProgress)-maxInProgress)
	status.InProgress = status.InProgress[:len(status.InProgress)-status.MoreInProgress]
	return status
}

// locks adds the locks, and returns the UIDs of their items: a job without its lock goes on elsewhere.
func (s Sources) locks(status *Status) map[string]bool {
	if s.Locks == nil {
		return nil
	}
	held := map[string]bool{}
	status.Locks = s.Locks()
	for _, l := range status.Locks {
		held[string(l.UID)] = true
	}
	return held
}
