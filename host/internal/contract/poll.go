package contract

import (
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// MinPoll is the least pause between two runs of a job.
	MinPoll = 100 * time.Millisecond
	// defaultPoll is the pause before the next call of a waiting job if its plugin names none.
	defaultPoll = 5 * time.Second
)

// PollInterval is the pause before the next run of a job: wish, within limits, and no longer than until the job's
// deadline.
func PollInterval(item *v1alpha1.DeployItem, wish time.Duration, now time.Time) time.Duration {
	if wish <= 0 {
		wish = defaultPoll
	}
	wish = max(wish, MinPoll)
	if deadline, err := Deadline(item); err == nil && !deadline.IsZero() {
		wish = min(wish, max(deadline.Sub(now), MinPoll))
	}
	return wish
}
