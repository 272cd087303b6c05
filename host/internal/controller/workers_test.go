package controller

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// TestWorkersAreCounted: a call that makes more than 70 % of the workers busy is logged as Landscaper does.
func TestWorkersAreCounted(t *testing.T) {
	for _, tc := range []struct {
		reason string
		size   int
		logged bool
	}{
		{"one of one is busy", 1, true},
		{"one of two is busy", 2, false},
	} {
		b := newBench(t, nil)
		var log strings.Builder
		b.log = slog.New(slog.NewTextHandler(&log, nil))
		b.slots = newSlots(tc.size, b.clock.Now)
		b.answer = func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
			if used := b.slots.used(); used != 1 {
				t.Errorf("%s: expected one worker in use, but found %d", tc.reason, used)
			}
			return succeeds(ctx, op, o)
		}
		b.expectSuccess(b.setJob())
		const line = `msg="worker threads of controller one" reconciledResourceKind=DeployItem usedWorkerThreads=1`
		if strings.Contains(log.String(), line) != tc.logged {
			t.Errorf("%s: expected the line to be logged: %t, but found\n%s", tc.reason, tc.logged, log.String())
		}
		if used := b.slots.used(); used != 0 {
			t.Errorf("%s: %d workers are still in use", tc.reason, used)
		}
	}
}
