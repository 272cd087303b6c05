package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The demo, on the cluster of the tests instead of one of its own.
func TestDemo(t *testing.T) {
	demo := exec.CommandContext(t.Context(), binaries+"/test/demo")
	demo.Env = append(os.Environ(), "DEMO_CLUSTER=current", "KUBECONFIG="+controlPlane.Kubeconfig, "DEMO_BINARIES="+binaries)
	out, err := demo.CombinedOutput()
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out)
	}
	for _, shown := range []string{
		"data.colour: green", "spec.height: 3", `{"endpoint":"https://mock.example.org"}`,
		`ERR_CONFIGURATION_PROBLEM`, `unknown field "manifest"`,
		"data.colour: red", "is not there", "Done in",
	} {
		if !strings.Contains(string(out), shown) {
			t.Errorf("the demo does not show %q:\n%s", shown, out)
		}
	}
}
