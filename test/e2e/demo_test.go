package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// demo runs the demo with the binaries under test, on a control plane of its own unless the environment says otherwise.
func demo(t *testing.T, env ...string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binaries+"/test/demo")
	command.Env = append(append(os.Environ(), "DEMO_BINARIES="+binaries), env...)
	out, err := command.CombinedOutput()
	return string(out), err
}

func TestDemo(t *testing.T) {
	out, err := demo(t)
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out)
	}
	for _, shown := range []string{
		"data.colour: green", "spec.height: 3", "data.greeting: good morning", `{"copies":1}`, `{"endpoint":"https://mock.example.org"}`,
		`ERR_CONFIGURATION_PROBLEM`, `unknown field "manifest"`,
		"data.colour: red", "data.greeting: good evening", "is not there", "Done in",
	} {
		if !strings.Contains(out, shown) {
			t.Errorf("the demo does not show %q:\n%s", shown, out)
		}
	}
	// On a machine with a node there is a container item, which is run twice; else the demo says why not.
	if !strings.Contains(out, "There will be no container item: ") {
		for _, shown := range []string{`{"count":1}`, `{"count":2}`} {
			if !strings.Contains(out, shown) {
				t.Errorf("the demo does not show %q:\n%s", shown, out)
			}
		}
	}
}

func TestDemoDoesNotIntrude(t *testing.T) {
	foreign := newItem(newNamespace(t), "foreign", mockType, mockSucceeds)
	create(t, foreign)

	out, err := demo(t, "DEMO_CLUSTER=current", "KUBECONFIG="+controlPlane.Kubeconfig)

	if err == nil || !strings.Contains(out, "DeployItems already") {
		t.Errorf("expected the demo to refuse a cluster that has deploy items, but found %v\n%s", err, out)
	}
	if fresh := read(t, foreign); fresh.ResourceVersion != foreign.ResourceVersion {
		t.Errorf("the demo has written to an item that is not its own: %s", describe(fresh))
	}
}
