package readiness

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// wanted is the number of wanted replicas of an object; one by default.
func wanted(o *unstructured.Unstructured) int64 {
	if n, ok := object.Number(o.Object, "spec", "replicas"); ok {
		return n
	}
	return 1
}

// counted is a number in the status of an object; zero if it is missing.
func counted(o *unstructured.Unstructured, name string) int64 {
	return object.Count(o.Object, "status", name)
}

// isOn reports whether a field of the spec is true in any of the objects.
func isOn(name string, objects ...map[string]any) bool {
	return slices.ContainsFunc(objects, func(o map[string]any) bool { return object.Value(o, "spec", name) == true })
}

// neverSeen waits until the controller of a workload has written a status. Without this check a workload of no
// replicas would be ready before its controller has seen it.
func neverSeen(o *unstructured.Unstructured) state {
	if _, ok := object.Number(o.Object, "status", "observedGeneration"); ok {
		return state{}
	}
	return waitingFor("its controller has not seen it yet")
}

// step of a workload on its way: it waits for as many replicas as wanted.
type step struct {
	name         string
	have, wanted int64
}

// lacks waits for the first unfinished step, with the reason of a failed creation of replicas if there is one.
func lacks(o *unstructured.Unstructured, steps ...step) state {
	for _, s := range steps {
		if s.have >= s.wanted {
			continue
		}
		if failure, ok := object.TrueCondition(o, "ReplicaFailure"); ok {
			return waitingFor("%s: %d/%d, %s", s.name, s.have, s.wanted, failure)
		}
		return waitingFor("%s: %d/%d", s.name, s.have, s.wanted)
	}
	return state{}
}

// replicas waits for the steps, and for the end of superfluous replicas.
func replicas(o *unstructured.Unstructured, steps ...step) state {
	var surplus state
	if more := counted(o, "replicas") - wanted(o); more > 0 {
		surplus = waitingFor("Pending termination: %d", more)
	}
	steps = append([]step{{"Replicas", counted(o, "replicas"), wanted(o)}}, steps...)
	return cmp.Or(lacks(o, steps...), neverSeen(o), surplus)
}

func judgeDeployment(of Object) state {
	o := of.Live
	paused := isOn("paused", o.Object)
	if paused && isOn("paused", of.Wanted...) {
		return neverSeen(o)
	}
	// A paused one keeps the condition from before, and may progress once it is resumed.
	if c, ok := object.ConditionOf(o, "Progressing"); ok && c.Reason == "ProgressDeadlineExceeded" && !paused {
		return failedWith("progress deadline exceeded (%d/%d available): %s",
			counted(o, "availableReplicas"), wanted(o), c.Message)
	}
	s := replicas(o,
		step{"Updated", counted(o, "updatedReplicas"), wanted(o)},
		step{"Available", counted(o, "availableReplicas"), wanted(o)},
	)
	if paused && s.phase == waiting { // nothing resumes it by itself
		return waitingFor("it is paused, but not by its manifest; resume it (%s)", s.message)
	}
	return s
}

// judgeReplicaSet is for ReplicationControllers, too: they differ only in their selectors.
func judgeReplicaSet(o *unstructured.Unstructured) state {
	return replicas(o, step{"Available", counted(o, "availableReplicas"), wanted(o)})
}

func judgeStatefulSet(o *unstructured.Unstructured) state {
	steps := []step{{"Ready", counted(o, "readyReplicas"), wanted(o)}}
	// Old API servers do not count available replicas, and without this field they are the ready ones.
	if object.Count(o.Object, "spec", "minReadySeconds") > 0 {
		steps = append(steps, step{"Available", counted(o, "availableReplicas"), wanted(o)})
	}
	return replicas(o, append(steps, updated(o)...)...)
}

// updated is the step for up-to-date replicas of a StatefulSet: those from the partition on, unless users replace
// them by themselves.
func updated(o *unstructured.Unstructured) []step {
	switch {
	case replacedByUsers(o):
		return nil
	case object.Text(o.Object, "status", "updateRevision") == object.Text(o.Object, "status", "currentRevision"):
		return nil // that of the existing replicas; updatedReplicas need not be set then
	}
	partition := object.Count(o.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	return []step{{"Updated", counted(o, "updatedReplicas"), wanted(o) - partition}}
}

// replacedByUsers reports whether the update strategy leaves the deletion of outdated replicas to users.
func replacedByUsers(o *unstructured.Unstructured) bool {
	return object.Text(o.Object, "spec", "updateStrategy", "type") == "OnDelete"
}

// judgeDaemonSet wants a replica on each intended node: none may be missing, whatever maxUnavailable allows during an
// update.
func judgeDaemonSet(o *unstructured.Unstructured) state {
	desired := counted(o, "desiredNumberScheduled")
	steps := []step{{"Scheduled", counted(o, "currentNumberScheduled"), desired}}
	if !replacedByUsers(o) {
		steps = append(steps, step{"Updated", counted(o, "updatedNumberScheduled"), desired})
	}
	return cmp.Or(neverSeen(o), lacks(o, append(steps, step{"Available", counted(o, "numberAvailable"), desired})...))
}

func judgeJob(of Object) state {
	o := of.Live
	if completion.IsComplete(o) {
		return state{}
	}
	if failure, ok := completion.Failure(o); ok { // without a count of Pods: a Job fails before they are counted
		return failedWith("the Job has failed, %s", failure)
	}
	switch suspended := isOn("suspend", o.Object); {
	case suspended && isOn("suspend", of.Wanted...):
		return state{}
	case suspended:
		return waitingFor("the Job is suspended, but not by its manifest; resume it")
	case object.Text(o.Object, "status", "startTime") == "":
		return waitingFor("the Job has not started")
	}
	return waitingFor("the Job is running (%d active, %d succeeded, %d failed)",
		counted(o, "active"), counted(o, "succeeded"), counted(o, "failed"))
}
