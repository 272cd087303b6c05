package journal

import "testing"

// TestStates: an error has only those lines of Helm's log that say what it has waited for.
func TestStates(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"Deployment is not ready: ns/shop. 0 out of 1 expected pods are ready": true,
		"Service does not have load balancer ingress IP address: ns/shop":      true,
		"PersistentVolumeClaim is not bound: ns/data":                          true,
		"Job is not completed: ns/init":                                        true,
		"Job is failed: ns/init":                                               true,
		"init: Jobs active: 1, jobs failed: 2, jobs succeeded: 0":              true,
		"Pod init pending":                                                           true,
		`Patch Job "init" in namespace ns`:                                           false,
		"Add/Modify event for init: MODIFIED":                                        false,
		"Watching for changes to Job init with timeout of 5m0s":                      false,
		"StatefulSet is ready: ns/db. 1 out of 1 expected pods are ready":            false,
		`error updating the resource "init": Job.batch "init" is invalid: immutable`: false,
	} {
		if got := aState.MatchString(line); got != want {
			t.Errorf("%q: expected %t, but found %t", line, want, got)
		}
	}
}
