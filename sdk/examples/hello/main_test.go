package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func newPlugin(t *testing.T) *sdktest.Plugin {
	t.Helper()
	return sdktest.New(t, deployer{}, sdk.Name("hello"), sdk.Version("test"), sdk.Types("example.org/hello"))
}

func TestHello(t *testing.T) {
	t.Parallel()
	plugin := newPlugin(t)
	call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/hello", config{Greeting: "good morning"})}

	sdktest.Conform(t, plugin, sdktest.Case{Name: "greets", Call: call})

	result := plugin.ReconcileUntilDone(t.Context(), call)
	if result.Succeeded == nil || result.Succeeded.Exports["greeting"] != "good morning" {
		t.Errorf("unexpected result: %s", result)
	}
}

func TestNoGreeting(t *testing.T) {
	t.Parallel()
	item := sdktest.DeployItem("example.org/hello", config{})
	result := newPlugin(t).Reconcile(t.Context(), sdktest.Call{DeployItem: item})
	if result.Failed == nil || result.Failed.Errors[0].Reason != "GreetingMissing" {
		t.Errorf("expected reason GreetingMissing, but found: %s", result)
	}
}

// The plugin author's page shows this program and an item for it; both have to be what they are here.
func TestAuthorsPage(t *testing.T) {
	t.Parallel()
	page := read(t, filepath.Join("..", "..", "..", "docs", "plugin-authors.md"))

	source := read(t, "main.go")
	if !strings.Contains(page, "```go\n"+source+"```\n") {
		t.Error("docs/plugin-authors.md does not show main.go as it is")
	}
	if lines := strings.Count(source, "\n"); lines >= 40 {
		t.Errorf("the smallest deployer has %d lines; the page promises fewer than 40", lines)
	}

	document := regexp.MustCompile(`(?s)kubectl apply -f - <<EOF\n(.*?)\nEOF\n`).FindStringSubmatch(page)
	if document == nil {
		t.Fatal("docs/plugin-authors.md applies no deploy item")
	}
	item := &v1alpha1.DeployItem{}
	if err := yaml.UnmarshalStrict([]byte(document[1]), item); err != nil {
		t.Fatalf("read the page's deploy item: %v", err)
	}
	result := newPlugin(t).Reconcile(t.Context(), sdktest.Call{DeployItem: item})
	if result.Succeeded == nil {
		t.Errorf("the page's deploy item %s", result)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
