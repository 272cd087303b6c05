package plugins

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const readerType v1alpha1.DeployItemType = "test.pergola.dev/reader"

// reader reads the file that its configuration names, and writes one of its own.
type reader struct{}

func (reader) Delete(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }

func (reader) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	var config struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		File       string `json:"file"`
	}
	if err := req.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if _, err := os.ReadFile(config.File); err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return nil, os.WriteFile(filepath.Join(os.TempDir(), "seen"), nil, 0o600)
}

// A plugin is verified with the confinement that a host gives it: what it can do there it can do on a host.
func TestVerifyConfines(t *testing.T) {
	t.Parallel()
	if sandbox.Supported().ABI == 0 {
		t.Skip("the kernel cannot confine: " + sandbox.Supported().String())
	}
	dir, other := t.TempDir(), t.TempDir()
	if self, err := os.Executable(); err != nil {
		t.Fatal(err)
	} else if err := testenv.AddPlugin(self, dir, "reader"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(other, "file")
	config := filepath.Join(other, "config.yaml")
	item := filepath.Join(other, "item.json")
	for path, text := range map[string]string{
		file:   "text",
		config: commandtest.ConfigHead + "plugins: {reader: {confinement: {read: [" + file + "]}}}\n",
		item: commandtest.ItemHead + "metadata: {namespace: shop, name: item}\n" + fmt.Sprintf(
			"spec: {type: %s, config: {apiVersion: test.pergola.dev/v1, kind: Reader, file: %s}}", readerType, file),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("read me"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"verify", "list"} {
		args := []string{"plugins", command, dir}
		if command == "list" {
			args = []string{"plugins", "list", "--plugin-dir", dir}
		}
		if out, _ := pergola.Run(t, args...); !strings.Contains(out, "not executable: README.md") {
			t.Errorf("%s: expected that it names what it passes over, but found %s", command, out)
		}
	}
	out, err := pergola.Run(t, "plugins", "verify", dir, "--item", item)
	if err == nil || !strings.Contains(out, "permission denied (the plugin is confined") {
		t.Errorf("expected that the plugin may not read the file, and how it may, but found %v, %s", err, out)
	}
	if out, err = pergola.Run(t, "plugins", "verify", dir, "--item", item, "--config", config); err != nil {
		t.Errorf("expected that the plugin may read what its configuration says, but found %v, %s", err, out)
	}
}
