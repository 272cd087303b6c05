package v1alpha1

import "testing"

func TestPhases(t *testing.T) {
	t.Parallel()
	type rules struct{ final, deletes bool }
	for phase, want := range map[DeployItemPhase]rules{
		"":                         {}, // no job has been yet
		DeployItemPhaseInit:        {},
		DeployItemPhaseProgressing: {},
		DeployItemPhaseCompleting:  {},
		DeployItemPhaseSucceeded:   {final: true},
		DeployItemPhaseFailed:      {final: true},
		DeployItemPhaseInitDelete:  {deletes: true},
		DeployItemPhaseDeleting:    {deletes: true},
		// A deletion that is done leaves no item.
		DeployItemPhaseDeleteFailed: {final: true, deletes: true},
	} {
		if got := (rules{phase.IsFinal(), phase.IsDeletion()}); got != want {
			t.Errorf("%q: expected %+v, but found %+v", phase, want, got)
		}
	}
}

func TestUnrecoverableCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[ErrorCode]bool{
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
	} {
		if got := code.Unrecoverable(); got != want {
			t.Errorf("%s: expected %v, but found %v", code, want, got)
		}
	}
}
