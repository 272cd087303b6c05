package contract

import (
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestPollInterval(t *testing.T) {
	cases := map[string]struct {
		reason  string
		timeout v1alpha1.Duration
		now     time.Duration // since the pick-up
		wish    time.Duration
		want    time.Duration
	}{
		"wish":      {reason: "the plugin knows best", wish: time.Minute, want: time.Minute},
		"no wish":   {reason: "the default", want: defaultPoll},
		"negative":  {reason: "the default", wish: -time.Second, want: defaultPoll},
		"too short": {reason: "no plugin keeps a worker busy", wish: time.Nanosecond, want: MinPoll},
		"beyond the end": {
			reason: "a timeout is noticed in time", wish: time.Hour, now: 9*time.Minute + Resolution, want: time.Minute,
		},
		"after the end":     {reason: "and at once if it has passed", wish: time.Hour, now: time.Hour, want: MinPoll},
		"no timeout":        {reason: "none is none", timeout: "none", wish: time.Hour, now: time.Hour, want: time.Hour},
		"malformed timeout": {reason: "that is reported elsewhere", timeout: "soon", wish: time.Hour, want: time.Hour},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
			item := &v1alpha1.DeployItem{}
			item.Spec.Timeout = tc.timeout
			item.Status.TransitionTimes = &v1alpha1.TransitionTimes{InitTime: &v1alpha1.Time{Time: noon}}
			if got := PollInterval(item, tc.wish, noon.Add(tc.now)); got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}
