package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestBadInput: an item that is wrong, or whose Target runs commands, fails at once with an error that says where
// to look, and the others go on.
func TestBadInput(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "good")
	createInlineTarget(t, namespace, "exec", map[string]any{"kubeconfig": map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": "https://127.0.0.1:1"}}},
		"users": []any{map[string]any{
			"name": "u", "user": map[string]any{"exec": map[string]any{"command": "/bin/true"}},
		}},
	}})
	good := manifestConfig(configMap(namespace, "good", "x"))
	for name, tc := range map[string]struct{ target, config, mention string }{
		"unknown-field": {"good", strings.Replace(good, `"policy"`, `"polizy"`, 1), "manifests[0].polizy"},
		"exec-target":   {"exec", good, "exec"},
	} {
		item := withTarget(newItem(namespace, name, manifestType, tc.config), tc.target)
		e := carryOut(t, item, failed).Status.LastError
		if e == nil || !slices.Contains(e.Codes, v1alpha1.ErrorConfigurationProblem) ||
			!strings.Contains(e.Message, tc.mention) {
			t.Errorf("%s: expected a configuration problem that names %q, but found %s", name, tc.mention, marshal(t, e))
		}
	}
	carryOut(t, withTarget(newItem(namespace, "good", manifestType, good), "good"), succeeded)
}
