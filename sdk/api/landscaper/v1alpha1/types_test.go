package v1alpha1

import "testing"

func TestPhases(t *testing.T) {
	t.Parallel()
	tests := map[DeployItemPhase]struct {
		reason                 string
		wantFinal, wantDeletes bool
	}{
		"":                         {reason: "no job has been yet"},
		DeployItemPhaseInit:        {reason: "a job has begun"},
		DeployItemPhaseProgressing: {reason: "a job goes on"},
		DeployItemPhaseCompleting:  {reason: "a job is nearly done"},
		DeployItemPhaseSucceeded:   {reason: "the job is done", wantFinal: true},
		DeployItemPhaseFailed:      {reason: "the job was given up", wantFinal: true},
		DeployItemPhaseInitDelete:  {reason: "a deletion has begun", wantDeletes: true},
		DeployItemPhaseDeleting:    {reason: "a deletion goes on", wantDeletes: true},
		DeployItemPhaseDeleteFailed: {
			reason: "a deletion was given up; a deletion that is done leaves no item", wantFinal: true, wantDeletes: true,
		},
	}
	for phase, tc := range tests {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			if phase.IsFinal() != tc.wantFinal || phase.IsDeletion() != tc.wantDeletes {
				t.Errorf("%s: final %v, deletion %v", tc.reason, phase.IsFinal(), phase.IsDeletion())
			}
		})
	}
}

func TestUnrecoverableCodes(t *testing.T) {
	t.Parallel()
	tests := map[ErrorCode]bool{
		ErrorConfigurationProblem: true,
		ErrorInternalProblem:      true,
		ErrorTimeout:              true,
		ErrorUnauthorized:         true,
		ErrorCyclicDependencies:   true,
		ErrorCleanup:              false,
		ErrorWebhook:              false,
		ErrorUnfinished:           false,
		ErrorForInfoOnly:          false,
		ErrorNoRetry:              false,
		"ERR_OF_A_LATER_VERSION":  false,
	}
	for code, want := range tests {
		if got := code.Unrecoverable(); got != want {
			t.Errorf("%s: expected %v, but found %v", code, want, got)
		}
	}
}
