package contract

import "testing"

func TestPath(t *testing.T) {
	for name, tc := range map[string]struct {
		decision  Decision
		canAbort  bool
		finalizer bool
		want      Path
	}{
		"an ended job": {
			decision: Decision{Action: TimedOut, Deletion: true}, want: OnlyWrite,
		},
		"an unchanged item":         {decision: Decision{Action: SucceedUnchanged}, want: OnlyWrite},
		"a new job":                 {decision: Decision{Action: Start}, want: WithPlugin},
		"a running job":             {decision: Decision{Action: Continue}, want: WithPlugin},
		"an abort":                  {decision: Decision{Action: Abort}, canAbort: true, want: WithPlugin},
		"an abort the plugin lacks": {decision: Decision{Action: Abort}, want: AbortWithoutPlugin},
		"an abort of a deletion": {
			decision: Decision{Action: Abort, Deletion: true}, canAbort: true, want: WithPlugin,
		},
		"a deletion": {
			decision: Decision{Action: PickUp, Deletion: true}, finalizer: true, want: WithPlugin,
		},
		"a deletion of an item that never reached a deployer": {
			decision: Decision{Action: PickUp, Deletion: true}, want: DeleteWithoutPlugin,
		},
		"a deletion that leaves behind": {
			decision:  Decision{Action: PickUp, Deletion: true, LeaveBehind: true},
			finalizer: true, want: DeleteWithoutPlugin,
		},
	} {
		if got := PathOf(tc.decision, tc.canAbort, tc.finalizer); got != tc.want {
			t.Errorf("%s: expected %q, but found %q", name, tc.want, got)
		}
	}
}
