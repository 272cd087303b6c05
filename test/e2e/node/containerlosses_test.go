package node

import (
	"regexp"
	"strings"
	"testing"
)

// acceptLoss finds in a message what a user is to do about a state that is lost.
var acceptLoss = regexp.MustCompile(`annotat\w+ (?:the deploy item with )?(\S+): "([^"]+)"`)

// No run begins with a state that is older than what the last one has done, unless the user says so.
func containerLosesState(w *world) {
	w.succeed("counter", stepConfig("count"))
	reason, message := w.fail("counter", stepConfig("count", "--", "fill-state", "11000000"))
	if reason != "OutputRefused" || !strings.Contains(message, "its state is lost") {
		w.Errorf("too large: found %s: %s", reason, message)
	}
	reason, message = w.fail("counter", stepConfig("count"))
	accept := acceptLoss.FindStringSubmatch(message)
	if reason != "StateLost" || accept == nil {
		w.Fatalf("the next run: found %s: %s", reason, message)
	}
	w.annotate("counter", accept[1], accept[2])
	if exports := w.succeed("counter", stepConfig("count")); exports["count"] != 2.0 {
		w.Errorf("expected the run that was accepted to begin with the state of the first, but found %v", exports)
	}
}

// TestContainerBesideMain: what others run beside main does not hold up the job, whose exports and state are kept.
func TestContainerBesideMain(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := newWorld(t)
	w.startHost(w.hostWith(nil, object{"podTemplate": object{"spec": object{"containers": []object{
		{"name": "main"},
		{"name": "proxy", "image": stepImage, "imagePullPolicy": "IfNotPresent", "args": []string{"hang"}},
	}}}}))
	for count := 1.0; count <= 2; count++ {
		exports := w.succeed("counter", with(stepConfig("count"), object{"importValues": object{"n": count}}))
		if exports["count"] != count {
			t.Errorf("expected the count %v, but found %v", count, exports)
		}
	}
}
