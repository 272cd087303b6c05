package readiness

import (
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// rules are for the kinds unknown to kstatus or not known well enough. They apply once the controller has seen the
// last change of the object.
var rules = map[schema.GroupKind]func(Object) state{
	{Kind: "Pod"}:                        ofLive(judgePod),
	{Kind: "ReplicationController"}:      ofLive(judgeReplicaSet),
	{Kind: "Service"}:                    ofLive(judgeService),
	{Group: "apps", Kind: "ReplicaSet"}:  ofLive(judgeReplicaSet),
	{Group: "apps", Kind: "StatefulSet"}: ofLive(judgeStatefulSet),
	{Group: "apps", Kind: "DaemonSet"}:   ofLive(judgeDaemonSet),
	{Group: "apps", Kind: "Deployment"}:  judgeDeployment,
	{Group: "batch", Kind: "Job"}:        judgeJob,
}

// ofLive makes a rule of one without need for the manifest.
func ofLive(rule func(*unstructured.Unstructured) state) func(Object) state {
	return func(o Object) state { return rule(o.Live) }
}

// judge returns the state of an object by its kind. It calls bindsLate for an unbound volume claim.
func judge(o Object, bindsLate func() (late bool, doubt string)) state {
	if o.Live.GetDeletionTimestamp() != nil {
		if _, failed := completion.Failure(o.Live); !failed { // a failure is known only until the object is gone
			return beingDeleted(o.Live)
		}
	}
	kind := o.Live.GroupVersionKind().GroupKind()
	if kind == (schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
		return judgeClaim(o.Live, bindsLate)
	}
	if rule, ok := rules[kind]; ok {
		if s := notSeen(o.Live); s.phase != ready {
			return s
		}
		return rule(o)
	}
	return judgeOther(o.Live)
}

func beingDeleted(o *unstructured.Unstructured) state {
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		return waitingFor("it is being deleted, held by the finalizers %s", strings.Join(finalizers, ", "))
	}
	return waitingFor("it is being deleted")
}

// notSeen waits until the controller of an object has seen its last change. An object without observedGeneration
// counts as seen.
func notSeen(o *unstructured.Unstructured) state {
	observed, ok := object.Number(o.Object, "status", "observedGeneration")
	if !ok || observed == o.GetGeneration() {
		return state{}
	}
	return waitingFor("its controller has not seen the last change yet (generation %d, but seen %d)",
		o.GetGeneration(), observed)
}

// judgeOther judges an object of a kind without a rule by kstatus. The status of a custom resource may have any
// shape; if it is unreadable for kstatus, only its condition Ready counts.
func judgeOther(o *unstructured.Unstructured) state {
	if s := staleCondition(o); s.phase != ready {
		return s
	}
	result, err := status.Compute(o)
	if err != nil {
		if object.IsCRD(o.GroupVersionKind().Group, o.GetKind()) {
			return waitingFor("its status cannot be read: %v", err)
		}
		if c, ok := object.ConditionOf(o, "Ready"); ok && c.Status != "True" {
			return waitingFor("%s", c)
		}
		return state{}
	}
	message := result.Message
	if message == "" && len(result.Conditions) > 0 {
		message = result.Conditions[0].Reason
	}
	if message == "" {
		message = "it does not say what it lacks"
	}
	switch result.Status {
	case status.CurrentStatus:
		return state{}
	case status.FailedStatus:
		return state{phase: failed, message: message}
	default: // on its way, in one state or another
		return state{phase: waiting, message: message}
	}
}

// staleCondition waits while a relevant condition is of an older generation of the object, because kstatus ignores
// that.
func staleCondition(o *unstructured.Unstructured) state {
	for _, kind := range []string{string(status.ConditionReconciling), string(status.ConditionStalled), "Ready"} {
		if c, ok := object.ConditionOf(o, kind); ok && c.Generation != nil && *c.Generation != o.GetGeneration() {
			return waitingFor("its condition %s is of generation %d, and not yet of generation %d",
				kind, *c.Generation, o.GetGeneration())
		}
	}
	return state{}
}
