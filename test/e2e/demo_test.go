package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDemo runs the demo with the binaries under test, on a control plane of its own.
func TestDemo(t *testing.T) {
	command := exec.CommandContext(t.Context(), binaries+"/test/demo")
	command.Env = append(os.Environ(), "DEMO_BINARIES="+binaries)
	printed, err := command.CombinedOutput()
	out := string(printed)
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out)
	}
	for _, shown := range []string{
		"map[colour:green]", "climbing   3", "greeting:good morning]", `{"copies":1}`,
		`{"endpoint":"https://mock.example.org"}`,
		`ERR_CONFIGURATION_PROBLEM`, `unknown field "manifest"`,
		"map[colour:red]", "NAME   HEIGHT\n$", "greeting:good evening]", `configmaps "settings" not found`,
		"Done in", "the first item had Succeeded after",
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
