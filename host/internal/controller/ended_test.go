package controller

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestJobEnded: somebody is told of a job that has ended without a word of the plugin, and of no other.
func TestJobEnded(t *testing.T) {
	waitsForEver := func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		return waits("something")
	}
	crashes := func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		return nil, plugin.ErrCrashed
	}
	refuses := func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		return &plugin.Outcome{Errors: []plugin.Error{{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Reason: "R", Message: "no"}}}, nil
	}
	cases := map[string]struct {
		reason string
		answer answer
		// meanwhile is what somebody does after the first look.
		meanwhile func(b *bench, jobID string)
		phase     v1alpha1.DeployItemPhase
		want      []string
	}{
		"succeeded": {reason: "the plugin has cleared up itself", answer: succeeds, phase: v1alpha1.DeployItemPhaseSucceeded},
		"failed":    {reason: "the plugin has had the last word", answer: refuses, phase: v1alpha1.DeployItemPhaseFailed},
		"timed out": {reason: "the plugin was not asked", answer: waitsForEver, phase: v1alpha1.DeployItemPhaseFailed, want: []string{"one"}},
		"crashed":   {reason: "the plugin could not", answer: crashes, phase: v1alpha1.DeployItemPhaseFailed, want: []string{"one"}},
		"interrupted": {
			reason: "the plugin does not know", answer: waitsForEver, phase: v1alpha1.DeployItemPhaseFailed, want: []string{"one"},
			meanwhile: func(b *bench, jobID string) {
				b.patchStatus(b.item, `{"phase":"Failed","jobIDFinished":"`+jobID+`"}`)
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.answer)
			var told []string
			b.jobEnded = func(plugin string) { told = append(told, plugin) }
			jobID := b.setJob()
			b.look(t.Context())
			if tc.meanwhile != nil {
				tc.meanwhile(b, jobID)
			}
			item := b.drive()
			if item.Status.Phase != tc.phase || item.Status.JobIDFinished != jobID {
				t.Errorf("%s: expected phase %s, but found %s", tc.reason, tc.phase, describe(item))
			}
			if diff := cmp.Diff(tc.want, told); diff != "" {
				t.Errorf("%s: who was told (-want +got):\n%s", tc.reason, diff)
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
