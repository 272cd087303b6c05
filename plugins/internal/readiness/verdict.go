package readiness

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
)

// Verdict has the reasons why objects are not ready: first by their kinds, in the order of the objects, then by the
// custom checks in their order. All are ready if it has neither waiting nor failed objects.
type Verdict struct {
	// Waiting are the objects on their way, each with its reason.
	Waiting []string
	// Failed are the objects beyond recovery, each with its reason. Waiting for them makes no sense.
	Failed []string
	// Seen are the objects to watch for custom checks, without the given ones. Future matches of a label selector are
	// not among them: their names are unknown.
	Seen []watch.Seen
}

// Object is an object of the deploy item's own Target to judge.
type Object struct {
	// Live is the object from the API server.
	Live *unstructured.Unstructured
	// Wanted is its manifest, and the later patch of the deploy item.
	Wanted []map[string]any
}

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

// maxMessage bounds the bytes of controllers' texts in a message about an object.
const maxMessage = 500

func (v *Verdict) add(o *unstructured.Unstructured, s state) {
	text := fmt.Sprintf("%s: %s", object.KeyOf(o), object.Cut(s.message, maxMessage))
	switch s.phase {
	case waiting:
		v.Waiting = append(v.Waiting, text)
	case failed:
		v.Failed = append(v.Failed, text)
	case ready:
	}
}
