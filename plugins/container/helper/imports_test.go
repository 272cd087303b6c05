package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The program runs in the Pods of others, and is to stay small: nothing of Kubernetes, and nothing that is not Go's or
// this deployer's.
func TestDependencies(t *testing.T) {
	t.Parallel()
	const own = "github.com/pergola-deploy/pergola/plugins/container/"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	allowed := []string{own + "helper", own + "internal/archive", own + "internal/layout"}
	for _, dependency := range strings.Fields(string(out)) {
		if !slices.Contains(allowed, dependency) {
			t.Errorf("the program depends on %s", dependency)
		}
	}
}
