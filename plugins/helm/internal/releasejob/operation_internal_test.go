package releasejob

import (
	"context"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// TestBounded: Helm gets at most the time left for the job, and an atomic operation has a rest of it for its undoing.
func TestBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		left    time.Duration // zero: the job has no end
		options helm.Options
		timeout time.Duration
		until   time.Duration // from the end of the job backwards
	}{
		// Rule (helm.md#helm-options): A `timeout` of `0` means the time of the item.
		"none":     {reason: "the job's is the default", left: time.Minute, timeout: time.Minute},
		"negative": {reason: "so it is", left: time.Minute, options: helm.Options{Timeout: -1}, timeout: time.Minute},
		// Rule (helm.md#helm-options): A `timeout` limits each wait of Helm.
		"shorter": {
			reason: "it counts", left: time.Minute, options: helm.Options{Timeout: 5 * time.Second}, timeout: 5 * time.Second,
		},
		// Rule (helm.md#helm-options): A wait of Helm has at most the time of the item.
		"longer": {
			reason: "the job has no more", left: time.Minute, options: helm.Options{Timeout: time.Hour}, timeout: time.Minute,
		},
		// Rule (helm.md#helm-options): For an item without a timeout Helm waits five minutes.
		"without an end": {reason: "it is Helm's own default", timeout: 5 * time.Minute},
		"negative without an end": {
			reason: "it is none", options: helm.Options{Timeout: -1}, timeout: 5 * time.Minute,
		},
		"given without an end": {
			reason: "it counts", options: helm.Options{Timeout: time.Hour}, timeout: time.Hour,
		},
		"over": {reason: "Helm needs some time to fail", left: -time.Minute, timeout: time.Second},
		// Rule (helm.md#helm-options): A third of the time is reserved for the undoing of an atomic operation.
		"atomic": {
			reason: "a third is left", left: time.Minute, options: helm.Options{Atomic: true}, timeout: time.Minute,
			until: 20 * time.Second,
		},
		// Rule (helm.md#helm-options): At most five minutes are reserved for it.
		"atomic and long": {
			reason: "five minutes are enough", left: time.Hour, options: helm.Options{Atomic: true}, timeout: time.Hour,
			until: 5 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const slack = time.Second // for the test's own time
			ctx, end := t.Context(), time.Now().Add(c.left)
			if c.left != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadline(ctx, end)
				defer cancel()
			}
			got := bounded(ctx, c.options)
			if got.Timeout > c.timeout || got.Timeout < c.timeout-slack {
				t.Errorf("%s: expected the timeout %s, but found %s", c.reason, c.timeout, got.Timeout)
			}
			if c.until == 0 {
				if !got.Until.IsZero() {
					t.Errorf("%s: expected no earlier end, but found %s", c.reason, got.Until)
				}
				return
			}
			if rest := end.Sub(got.Until); rest > c.until || rest < c.until-slack {
				t.Errorf("%s: expected %s for the undoing, but found %s", c.reason, c.until, rest)
			}
		})
	}
}
