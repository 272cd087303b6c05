package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestPluginDirectory: a file that is no plugin, or that claims a type which another one claims, is not used,
// readiness says why, and the plugins beside it work.
func TestPluginDirectory(t *testing.T) {
	dir := pluginDir(t, "probe", "mock")
	addPlugin(t, dir, "mock", "twin")
	for name, content := range map[string]string{"text": "just some text\n", "no-plugin": "#!/bin/sh\necho hello\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	host := startHost(t, testenv.HostOptions{PluginDir: dir})
	namespace := newNamespace(t)
	contested := start(t, newItem(namespace, "contested", mockType, mockSucceeds))
	carryOut(t, newItem(namespace, "item", probeType, probeConfig(t.TempDir())), succeeded)
	eventually(t, "readiness to name each bad file", func(ctx context.Context) (string, error) {
		text := describeError(host.Ready(ctx))
		for file, problem := range map[string]string{
			"text": "refused: is no program", "no-plugin": "is no Pergola plugin", "mock": "refused", "twin": "refused",
		} {
			if !strings.Contains(text, "plugin "+file+": "+problem) {
				return text, nil
			}
		}
		return "", nil
	})
	if text := describeError(host.Ready(t.Context())); strings.Contains(text, "plugin probe") {
		t.Errorf("readiness names a plugin that is all right: %s", text)
	}
	carryOut(t, newItem(namespace, "later", probeType, probeConfig(t.TempDir())), succeeded)
	if fresh := read(t, contested); fresh.ResourceVersion != contested.ResourceVersion {
		t.Errorf("an item of the contested type was written: %s", describe(fresh))
	}
}

func describeError(err error) string {
	if err == nil {
		return "ready"
	}
	return err.Error()
}
