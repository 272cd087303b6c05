package job

import (
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestPollAfter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for age, want := range map[time.Duration]time.Duration{
		-time.Minute: 250 * time.Millisecond, 0: 250 * time.Millisecond,
		8 * time.Second: 2 * time.Second, time.Hour: 15 * time.Second,
	} {
		item := &landscaper.DeployItem{}
		item.Status.TransitionTimes = &landscaper.TransitionTimes{InitTime: &landscaper.Time{Time: now.Add(-age)}}
		if got := PollAfter(&sdk.Request{DeployItem: item}, now); got != want {
			t.Errorf("age %s: expected %s, but found %s", age, want, got)
		}
	}
	if got := PollAfter(&sdk.Request{DeployItem: &landscaper.DeployItem{}}, now); got != 250*time.Millisecond {
		t.Errorf("without an age: expected a quarter of a second, but found %s", got)
	}
}
