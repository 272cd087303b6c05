package readiness

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

type phase int

const (
	ready phase = iota
	waiting
	failed
)

// state of an object, with what it lacks unless it is ready.
type state struct {
	phase   phase
	message string
}

func waitingFor(format string, args ...any) state {
	return state{phase: waiting, message: fmt.Sprintf(format, args...)}
}

func failedWith(format string, args ...any) state {
	return state{phase: failed, message: fmt.Sprintf(format, args...)}
}

// rules are for the kinds that kstatus does not know or not well enough. They are asked once the last change of the
// object was seen.
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

// ofLive makes a rule of one for which it does not matter what is wanted.
func ofLive(rule func(*unstructured.Unstructured) state) func(Object) state {
	return func(o Object) state { return rule(o.Live) }
}

// judge tells the state of an object by its kind. bindsLate is asked for a volume claim that is not bound.
func judge(o Object, bindsLate func() (late bool, doubt string)) state {
	if o.Live.GetDeletionTimestamp() != nil && !HasFailed(o.Live) { // that it has failed is known only until it is gone
		return beingDeleted(o.Live)
	}
	kind := o.Live.GroupVersionKind().GroupKind()
	if kind == (schema.GroupKind{Kind: "PersistentVolumeClaim"}) {
		return judgeClaim(o.Live, bindsLate)
	}
	if rule, ok := rules[kind]; ok {
		if s, ok := notSeen(o.Live); ok {
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

// notSeen tells whether the controller of an object has not seen its last change yet. One that does not say what it has
// seen has seen it.
func notSeen(o *unstructured.Unstructured) (state, bool) {
	observed, ok := number(o.Object, "status", "observedGeneration")
	if !ok || observed == o.GetGeneration() {
		return state{}, false
	}
	return waitingFor("its controller has not seen the last change yet (generation %d, but seen %d)", o.GetGeneration(), observed), true
}

// judgeOther judges an object of any kind without a rule by kstatus. The status of a custom resource may be of any
// shape; what kstatus cannot read is read here, as far as it is like what others have.
func judgeOther(o *unstructured.Unstructured) state {
	if s, ok := staleCondition(o); ok {
		return s
	}
	result, err := status.Compute(o)
	if err != nil {
		if object.IsCRD(o.GroupVersionKind().Group, o.GetKind()) {
			return waitingFor("its status cannot be read: %v", err)
		}
		if c, ok := findCondition(o, "Ready"); ok && c.status != "True" {
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

// staleCondition tells whether a condition that counts is of an older generation of the object, which kstatus does not
// look at.
func staleCondition(o *unstructured.Unstructured) (state, bool) {
	for _, kind := range []string{string(status.ConditionReconciling), string(status.ConditionStalled), "Ready"} {
		if c, ok := findCondition(o, kind); ok && c.hasGeneration && c.generation != o.GetGeneration() {
			return waitingFor("its condition %s is of generation %d, and not yet of generation %d", kind, c.generation, o.GetGeneration()), true
		}
	}
	return state{}, false
}

// condition of an object, as far as it can be read.
type condition struct {
	kind, status, reason, message string
	generation                    int64
	hasGeneration                 bool
}

// String returns what a condition says, or else its reason, or else its status.
func (c condition) String() string {
	switch {
	case c.message != "" && c.reason != "":
		return c.reason + ": " + c.message
	case c.message != "" || c.reason != "":
		return c.message + c.reason
	default:
		return fmt.Sprintf("its condition %s is %s", c.kind, c.status)
	}
}

func findCondition(o *unstructured.Unstructured, kind string) (condition, bool) {
	for _, entry := range list(o.Object, "status", "conditions") {
		if text(entry, "type") != kind {
			continue
		}
		c := condition{kind: kind, status: text(entry, "status"), reason: text(entry, "reason"), message: text(entry, "message")}
		c.generation, c.hasGeneration = number(entry, "observedGeneration")
		return c, true
	}
	return condition{}, false
}

// isTrue tells whether an object has a condition with the status True, and what it says.
func isTrue(o *unstructured.Unstructured, kind string) (condition, bool) {
	c, ok := findCondition(o, kind)
	return c, ok && c.status == "True"
}

// The fields of an object that may be of any shape: one of another shape is one that is not there.

func value(in map[string]any, path ...string) any {
	found, ok, err := unstructured.NestedFieldNoCopy(in, path...)
	if !ok || err != nil {
		return nil
	}
	return found
}

// isOn reports whether a field of the spec is true in any of the objects.
func isOn(name string, objects ...map[string]any) bool {
	return slices.ContainsFunc(objects, func(o map[string]any) bool { return value(o, "spec", name) == true })
}

func number(in map[string]any, path ...string) (int64, bool) {
	n, ok := value(in, path...).(int64)
	return n, ok
}

// count returns a number of things, none if it is not there.
func count(in map[string]any, path ...string) int64 {
	n, _ := number(in, path...)
	return n
}

func text(in map[string]any, path ...string) string {
	s, _ := value(in, path...).(string)
	return s
}

// list returns the maps in a list.
func list(in map[string]any, path ...string) []map[string]any {
	entries, _ := value(in, path...).([]any)
	var maps []map[string]any
	for _, entry := range entries {
		if m, ok := entry.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}
