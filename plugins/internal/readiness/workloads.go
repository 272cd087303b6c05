package readiness

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wanted is the number of wanted replicas of an object; one by default.
func wanted(o *unstructured.Unstructured) int64 {
	if n, ok := number(o.Object, "spec", "replicas"); ok {
		return n
	}
	return 1
}

// neverSeen reports whether the controller of a workload has written no status yet. Without this check a workload of
// no replicas would be ready before its controller has seen it.
func neverSeen(o *unstructured.Unstructured) (state, bool) {
	if _, ok := number(o.Object, "status", "observedGeneration"); ok {
		return state{}, false
	}
	return waitingFor("its controller has not seen it yet"), true
}

// step of a workload on its way: it waits for as many replicas as wanted.
type step struct {
	name         string
	have, wanted int64
}

// lacks returns the first unfinished step, with the reason of a failed creation of replicas if there is one.
func lacks(o *unstructured.Unstructured, steps ...step) (state, bool) {
	for _, s := range steps {
		if s.have >= s.wanted {
			continue
		}
		if failure, ok := isTrue(o, "ReplicaFailure"); ok {
			return waitingFor("%s: %d/%d, %s", s.name, s.have, s.wanted, failure), true
		}
		return waitingFor("%s: %d/%d", s.name, s.have, s.wanted), true
	}
	return state{}, false
}

// tooMany waits for the end of superfluous replicas.
func tooMany(o *unstructured.Unstructured) (state, bool) {
	if more := count(o.Object, "status", "replicas") - wanted(o); more > 0 {
		return waitingFor("Pending termination: %d", more), true
	}
	return state{}, false
}

func first(o *unstructured.Unstructured, checks ...func(*unstructured.Unstructured) (state, bool)) state {
	for _, check := range checks {
		if s, ok := check(o); ok {
			return s
		}
	}
	return state{}
}

func judgeDeployment(of Object) state {
	o := of.Live
	paused := isOn("paused", o.Object)
	if paused && isOn("paused", of.Wanted...) {
		return first(o, neverSeen)
	}
	// A paused one keeps the condition from before, and may progress once it is resumed.
	if c, ok := findCondition(o, "Progressing"); ok && c.reason == "ProgressDeadlineExceeded" && !paused {
		return failedWith("progress deadline exceeded (%d/%d available): %s",
			count(o.Object, "status", "availableReplicas"), wanted(o), c.message)
	}
	s := first(o, func(o *unstructured.Unstructured) (state, bool) {
		return lacks(o,
			step{"Replicas", count(o.Object, "status", "replicas"), wanted(o)},
			step{"Updated", count(o.Object, "status", "updatedReplicas"), wanted(o)},
			step{"Available", count(o.Object, "status", "availableReplicas"), wanted(o)},
		)
	}, neverSeen, tooMany)
	if paused && s.phase == waiting { // others have paused it, and nothing resumes it by itself
		return waitingFor("it is paused, which its manifest does not say; resume it (%s)", s.message)
	}
	return s
}

// judgeReplicaSet is for ReplicationControllers, too: they differ only in their selectors.
func judgeReplicaSet(o *unstructured.Unstructured) state {
	return first(o, func(o *unstructured.Unstructured) (state, bool) {
		return lacks(o,
			step{"Replicas", count(o.Object, "status", "replicas"), wanted(o)},
			step{"Available", count(o.Object, "status", "availableReplicas"), wanted(o)},
		)
	}, neverSeen, tooMany)
}

func judgeStatefulSet(o *unstructured.Unstructured) state {
	return first(o, func(o *unstructured.Unstructured) (state, bool) {
		steps := []step{
			{"Replicas", count(o.Object, "status", "replicas"), wanted(o)},
			{"Ready", count(o.Object, "status", "readyReplicas"), wanted(o)},
		}
		// Old API servers do not count available replicas, and without this field they are the ready ones.
		if count(o.Object, "spec", "minReadySeconds") > 0 {
			steps = append(steps, step{"Available", count(o.Object, "status", "availableReplicas"), wanted(o)})
		}
		return lacks(o, append(steps, updated(o)...)...)
	}, neverSeen, tooMany)
}

// updated is the step for up-to-date replicas of a StatefulSet: those from the partition on, unless users replace
// them by themselves.
func updated(o *unstructured.Unstructured) []step {
	switch {
	case text(o.Object, "spec", "updateStrategy", "type") == onDelete:
		return nil
	case text(o.Object, "status", "updateRevision") == text(o.Object, "status", "currentRevision"):
		return nil // that of the existing replicas; updatedReplicas need not be set then
	}
	partition := count(o.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	return []step{{"Updated", count(o.Object, "status", "updatedReplicas"), wanted(o) - partition}}
}

// onDelete is the update strategy with the deletion of outdated replicas left to users.
const onDelete = "OnDelete"

// judgeDaemonSet wants a replica on each intended node: none may be missing, whatever maxUnavailable allows during an
// update.
func judgeDaemonSet(o *unstructured.Unstructured) state {
	return first(o, neverSeen, func(o *unstructured.Unstructured) (state, bool) {
		desired := count(o.Object, "status", "desiredNumberScheduled")
		steps := []step{{"Scheduled", count(o.Object, "status", "currentNumberScheduled"), desired}}
		if text(o.Object, "spec", "updateStrategy", "type") != onDelete {
			steps = append(steps, step{"Updated", count(o.Object, "status", "updatedNumberScheduled"), desired})
		}
		return lacks(o, append(steps, step{"Available", count(o.Object, "status", "numberAvailable"), desired})...)
	})
}

func judgeJob(of Object) state {
	o := of.Live
	if IsComplete(o) {
		return state{}
	}
	for _, kind := range []string{"Failed", "FailureTarget"} {
		if c, ok := isTrue(o, kind); ok { // without a count of Pods: a Job fails before they are counted
			return failedWith("the Job has failed, %s", c)
		}
	}
	switch suspended := isOn("suspend", o.Object); {
	case suspended && isOn("suspend", of.Wanted...):
		return state{}
	case suspended:
		return waitingFor("the Job is suspended, which its manifest does not say; resume it")
	case text(o.Object, "status", "startTime") == "":
		return waitingFor("the Job has not started")
	}
	active, succeeded := count(o.Object, "status", "active"), count(o.Object, "status", "succeeded")
	failures := count(o.Object, "status", "failed")
	return waitingFor("the Job is running (%d active, %d succeeded, %d failed)", active, succeeded, failures)
}
