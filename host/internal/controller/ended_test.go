package controller

import (
	"context"
	"slices"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestJobEnded: somebody is told of a job that has ended without a word of the plugin, and of no other.
func TestJobEnded(t *testing.T) {
	waiting := answers(func() (*plugin.Outcome, error) { return waits("something") })
	refusing := answers(func() (*plugin.Outcome, error) {
		return &plugin.Outcome{Errors: []plugin.Error{{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Message: "no"}}}, nil
	})
	for name, tc := range map[string]struct {
		reason      string
		answer      answer
		interrupted bool
		told        bool
	}{
		"succeeded":   {"the plugin has cleared up itself", succeeds, false, false},
		"failed":      {"the plugin has had the last word", refusing, false, false},
		"timed out":   {"the plugin was not asked", waiting, false, true},
		"crashed":     {"the plugin could not", crashes, false, true},
		"interrupted": {"the plugin does not know", waiting, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.answer)
			var told []string
			b.jobEnded = func(plugin string) { told = append(told, plugin) }
			jobID := b.setJob()
			b.look(t.Context())
			if tc.interrupted {
				b.patchStatus(b.item, `{"phase":"Failed","jobIDFinished":"`+jobID+`"}`)
			}
			if item := b.drive(); item.Status.JobIDFinished != jobID || slices.Equal(told, []string{"one"}) != tc.told || len(told) > 1 {
				t.Errorf("%s: found that %v were told, and %s", tc.reason, told, describe(item))
			}
		})
	}
}

// TestWithheld: a plugin that is not called, because the host cannot give it what was promised, is called again
// later; the user is told why.
func TestWithheld(t *testing.T) {
	withheld := true
	b := newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		if withheld {
			return nil, plugin.Error{Operation: "AccessHostCluster", Reason: "HostClusterUnavailable", Message: "there is no ServiceAccount"}
		}
		return succeeds(ctx, op, o)
	})
	b.setJob()
	wait := b.look(t.Context())
	item := b.read()
	if wait == 0 || item.Status.Phase.IsFinal() || item.Status.LastError == nil || item.Status.LastError.Reason != "HostClusterUnavailable" ||
		item.Status.LastError.Message != "there is no ServiceAccount" {
		t.Errorf("expected another try after %s and to hear why, but found %s", wait, describe(item))
	}
	withheld = false
	b.clock.Step(wait)
	if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected the job to go on, but found %s", describe(item))
	}
}
