package main

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/cluster/internal/binaries"
)

func TestSourceNamesItsVersion(t *testing.T) {
	key, err := binaries.Key(source)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(key, "v1.") {
		t.Errorf("key = %q, want it to start with the Kubernetes version", key)
	}
}

func TestImageNeedsItsFlags(t *testing.T) {
	if err := runImage(t.Context(), []string{"binary"}); err == nil {
		t.Error("no error without --out and --name")
	}
}
