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

// state of an object, with the reason unless it is ready.
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
	if o.Live.GetDeletionTimestamp() != nil && !HasFailed(o.Live) { // its failure is known only until it is gone
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

// notSeen reports whether the controller of an object has not seen its last change yet. An object without
// observedGeneration counts as seen.
func notSeen(o *unstructured.Unstructured) (state, bool) {
	observed, ok := number(o.Object, "status", "observedGeneration")
	if !ok || observed == o.GetGeneration() {
		return state{}, false
	}
	return waitingFor("its controller has not seen the last change yet (generation %d, but seen %d)", o.GetGeneration(), observed), true
}

// judgeOther judges an object of a kind without a rule by kstatus. The status of a custom resource may have any
// shape; if it is unreadable for kstatus, only its condition Ready counts.
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

// staleCondition reports whether a relevant condition is of an older generation of the object, because kstatus
// ignores that.
func staleCondition(o *unstructured.Unstructured) (state, bool) {
	for _, kind := range []string{string(status.ConditionReconciling), string(status.ConditionStalled), "Ready"} {
		if c, ok := findCondition(o, kind); ok && c.hasGeneration && c.generation != o.GetGeneration() {
			return waitingFor("its condition %s is of generation %d, and not yet of generation %d", kind, c.generation, o.GetGeneration()), true
		}
	}
	return state{}, false
}

// condition of an object, as far as it is readable.
type condition struct {
	kind, status, reason, message string
	generation                    int64
	hasGeneration                 bool
}

// String returns the message of a condition, or else its reason, or else its status.
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

// isTrue reports whether an object has a condition with the status True, and returns the condition.
func isTrue(o *unstructured.Unstructured, kind string) (condition, bool) {
	c, ok := findCondition(o, kind)
	return c, ok && c.status == "True"
}

// The fields of an object of any shape: a field of another shape counts as missing.

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

// count returns a number of things; zero if it is missing.
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
