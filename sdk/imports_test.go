package sdk_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// run returns what a go command prints, by words.
func run(t *testing.T, args ...string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go %q: %v", args, err)
	}
	return strings.Fields(string(out))
}

// A deployer must not have to bring along what the host is made of, and a program that checks plugins is no test.
// Schedules need zones, and an image that holds nothing but the plugin has none of its own.
func TestDependencies(t *testing.T) {
	t.Parallel()
	for _, dependency := range run(t, "list", "-deps", "./...") {
		for _, unwanted := range []string{
			"sigs.k8s.io/controller-runtime", "k8s.io/client-go", "helm.sh/helm", "github.com/pergola-deploy/pergola/host",
		} {
			if strings.HasPrefix(dependency, unwanted) {
				t.Errorf("the sdk depends on %s", dependency)
			}
		}
	}
	if slices.Contains(run(t, "list", "-f", `{{join .Imports " "}}`, "./conformance"), "testing") {
		t.Error("package conformance imports package testing")
	}
	if !slices.Contains(run(t, "list", "-deps", "./hook/continuousreconcile"), "time/tzdata") {
		t.Error("package continuousreconcile does not embed the zones")
	}
}

// The protocol can change without the code of a plugin author when none of its types is in a signature.
func TestNoProtocolInExportedSignatures(t *testing.T) {
	t.Parallel()
	protocol := regexp.MustCompile(`\b(deployerv1|handshake|grpc|goplugin|codes|durationpb)\.[A-Z]\w*`)
	for _, pkg := range []string{
		".", "./hook", "./hook/continuousreconcile", "./sdktest", "./conformance",
		"./clients", "./httperror", "./pluginconfig", "./providerconfig", "./redact", "./schema",
	} {
		for _, word := range run(t, "doc", "-all", pkg) {
			if protocol.MatchString(word) {
				t.Errorf("%s exports %s", pkg, word)
			}
		}
	}
}
