package sdk_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A deployer must not have to bring along what the host is made of.
func TestDependencies(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for dependency := range strings.Lines(string(out)) {
		for _, unwanted := range []string{
			"sigs.k8s.io/controller-runtime", "k8s.io/client-go", "helm.sh/helm", "github.com/pergola-deploy/pergola/host",
		} {
			if strings.HasPrefix(dependency, unwanted) {
				t.Errorf("the sdk depends on %s", strings.TrimSpace(dependency))
			}
		}
	}
}

// A program that checks plugins is no test.
func TestConformanceNeedsNoTest(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports " "}}`, "./conformance").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if slices.Contains(strings.Fields(string(out)), "testing") {
		t.Error("package conformance imports package testing")
	}
}

// The protocol can change without the code of a plugin author when none of its types is in a signature.
func TestNoProtocolInExportedSignatures(t *testing.T) {
	t.Parallel()
	protocol := regexp.MustCompile(`\b(deployerv1|handshake|grpc|goplugin|codes|durationpb)\.[A-Z]\w*`)
	for _, pkg := range []string{".", "./hook", "./hook/continuousreconcile", "./sdktest", "./conformance"} {
		out, err := exec.CommandContext(t.Context(), "go", "doc", "-all", pkg).Output()
		if err != nil {
			t.Fatalf("go doc %s: %v", pkg, err)
		}
		for _, found := range protocol.FindAllString(string(out), -1) {
			t.Errorf("%s exports %s", pkg, found)
		}
	}
}
