package plugin

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason   string
		failures int
		random   float64
		want     time.Duration
	}{
		"first":      {"it begins with a quarter of a second", 0, 0, 250 * time.Millisecond},
		"second":     {"it doubles", 1, 0, 500 * time.Millisecond},
		"seventh":    {"it still does", 6, 0, 16 * time.Second},
		"eighth":     {"it does not grow beyond half a minute", 7, 0, 30 * time.Second},
		"many":       {"it never overflows", math.MaxInt, 0, 30 * time.Second},
		"half":       {"chance takes something off", 0, 0.5, 225 * time.Millisecond},
		"all but it": {"chance takes a fifth off at most", 7, 1, 24 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := backoff(test.failures, test.random); got != test.want {
				t.Errorf("%s: expected %s, but found %s", test.reason, test.want, got)
			}
		})
	}
}

func TestBackoffProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		failures := rapid.IntRange(0, math.MaxInt-1).Draw(t, "failures")
		random := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		pause, base := backoff(failures, random), backoff(failures, 0)
		if pause <= 0 || pause > maxPause || base < firstPause {
			t.Fatalf("%s of %s is out of bounds", pause, base)
		}
		if pause > base || pause < base*4/5 {
			t.Fatalf("chance makes %s of %s", pause, base)
		}
		if next := backoff(failures+1, 0); next < base {
			t.Fatalf("%s comes after %s", next, base)
		}
	})
}
