package move

import "testing"

// Rule (deploy-items.md#moving): The annotations of a move take effect only after `TargetChanged`, and in their order.
func TestDecide(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason string
		state  State
		answer answer
		named  string
		order  Order
		next   State
		again  bool
	}{
		{"an ordinary job", Still, succeeded, "old", DeployFirst, Still, false},
		{"an ordinary failure", Still, unfinished, "old", RemoveFirst, Still, false},
		{"nothing moves by itself", Still, otherCluster, "", RemoveFirst, Still, false},
		{"it begins with the removal", Still, otherCluster, "old", RemoveFirst, Removing, true},
		{"it begins with the deployment", Still, otherCluster, "old", DeployFirst, Deploying, true},
		{"the deployment goes on", Deploying, unfinished, "old", DeployFirst, Deploying, false},
		{"after the deployment comes the removal", Deploying, succeeded, "old", DeployFirst, Removing, true},
		{"so it does without the annotation", Deploying, succeeded, "", RemoveFirst, Removing, true},
		{"a second move waits for the removal", Deploying, otherCluster, "old", DeployFirst, Removing, true},
		{"the removal goes on", Removing, unfinished, "old", RemoveFirst, Removing, false},
		{"after the removal comes an ordinary job", Removing, succeeded, "", RemoveFirst, Still, true},
		{"the name is wrong", Removing, otherCluster, "old", RemoveFirst, Removing, false},
		{"the name is right now", Removing, otherCluster, "right", RemoveFirst, Removing, true},
		{"a move taken back ends", TakenBack, succeeded, "", RemoveFirst, TakenBack, true},
		{"it goes on to be taken back", TakenBack, unfinished, "", RemoveFirst, TakenBack, false},
		{"another move begins instead", TakenBack, otherCluster, "third", RemoveFirst, Removing, true},
		{"the new cluster has no name", Reversing, otherCluster, "", RemoveFirst, Reversing, false},
		{"the way back removes first", Reversing, otherCluster, "new", RemoveFirst, Removing, true},
		{"the way back deploys first", Reversing, otherCluster, "new", DeployFirst, Deploying, true},
		{"there is one cluster only", Reversing, succeeded, "new", DeployFirst, TakenBack, true},
	} {
		if next, again := decide(tc.state, tc.answer, "old", tc.named, tc.order); next != tc.next || again != tc.again {
			t.Errorf("%s: expected %s, %t, but found %s, %t", tc.reason, tc.next, tc.again, next, again)
		}
	}
}
