package statuspage

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestLookingCostsLittle: what is shown is made anew only when it is old.
func TestLookingCostsLittle(t *testing.T) {
	t.Parallel()
	clock, made := clocktesting.NewFakePassiveClock(noon), 0
	status := &cached[int]{age: statusAge, clock: clock, make: func() int { made++; return made }}
	for _, tc := range []struct {
		reason string
		after  time.Duration
		made   int
	}{
		{"the first look", 0, 1},
		{"it is as it was", statusAge - 1, 1},
		{"it is old", statusAge, 2},
	} {
		clock.SetTime(noon.Add(tc.after))
		if got := status.get(); got != tc.made {
			t.Errorf("%s: expected to see number %d, but found %d", tc.reason, tc.made, got)
		}
	}
}
