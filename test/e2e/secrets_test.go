package e2e

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestNothingSecretIsTold: whatever becomes of jobs with secrets in their items and Targets, these are nowhere but
// where they belong: not in status, events, log, metrics, the status page, and what the commands print.
// Rule (architecture.md#what-always-holds): 9. Nothing secret is in status, events, logs, metrics or error texts.
func TestNothingSecretIsTold(t *testing.T) {
	const marker = "cucumber-sandwich"
	host := startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "manifest"), Args: []string{"--log-level", "debug"},
		Config: writeConfig(t, anyConfig+"statusPage: {listenAddress: \"127.0.0.1:0\"}\n"),
	})
	namespace := newNamespace(t)
	createTarget(t, namespace, "good")
	for name, user := range map[string]string{
		"forbidden": fmt.Sprintf(`{"token":%q,"exec":{"command":%q}}`, marker, marker),
		"malformed": fmt.Sprintf(`{"token":[%q]}`, marker),
	} {
		target, err := testenv.NewTarget(namespace, name, fmt.Appendf(nil, `{
			"apiVersion":"v1","kind":"Config","current-context":"c",
			"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":%s}],
			"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}]}`, user))
		if err != nil {
			t.Fatal(err)
		}
		create(t, target)
	}
	secretWith := func(name string, more map[string]any) string {
		secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "name": name, "namespace": namespace}
		export := map[string]any{"exports": map[string]any{"exports": []any{
			map[string]any{"key": "password", "jsonPath": ".data.password", "fromResource": secret},
		}}}
		return manifestConfigWith(export, manifest("v1", "Secret", namespace, name, more))
	}
	password := func(value any) map[string]any {
		return map[string]any{"stringData": map[string]any{"password": value}}
	}
	told := &strings.Builder{}
	for name, tc := range map[string]struct {
		reason, target, config string
		phase                  v1alpha1.DeployItemPhase
	}{
		"deployed": {"all is as it should be", "good", secretWith("deployed", password(marker)), succeeded},
		"encoded": {"a value that is no base64", "good", secretWith("encoded", map[string]any{
			"data": map[string]any{"password": marker},
		}), failed},
		"mistyped": {"a value that is no text", "good", secretWith("mistyped", password([]any{marker})), failed},
		"refused": {"the API server says what is wrong with a value", "good", secretWith("refused", map[string]any{
			"type": "kubernetes.io/dockerconfigjson", "stringData": map[string]any{".dockerconfigjson": marker},
		}), failed},
		"unknown": {
			"what is wrong is beside a secret", "good",
			strings.Replace(secretWith("unknown", password(marker)), `"policy"`, `"polizy"`, 1), failed,
		},
		"forbidden": {"the credentials of the Target are not allowed", "forbidden", manifestConfig(), failed},
		"malformed": {"the credentials of the Target cannot be read", "malformed", manifestConfig(), failed},
	} {
		item := carryOut(t, withTarget(newItem(namespace, name, manifestType, tc.config), tc.target), tc.phase)
		events, err := eventsOf(t.Context(), item)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %s", tc.reason, describe(item))
		fmt.Fprintf(told, "%s: status %s\nevents %s\n", name, marshal(t, item.Status), marshal(t, events))
		for _, command := range [][]string{
			{"items", "show", name, "-o", "json"}, {"items", "tree", name, "-o", "json"}, {"items", "list", "-o", "json"},
		} {
			out := pergola(t, append(command, "-n", namespace, "--kubeconfig", controlPlane.Kubeconfig)...)
			if out.code > 1 {
				t.Errorf("%s: %v: exit code %d: %s", tc.reason, command, out.code, out.stderr)
			}
			fmt.Fprintf(told, "%v: %s%s\n", command, out.stdout, out.stderr)
		}
	}
	page := "http://" + statusPageAddress.FindStringSubmatch(host.Log())[1]
	for _, url := range []string{host.URL + "/metrics", page, page + "/status.json"} {
		body, err := fetch(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		told.WriteString(body)
	}
	told.WriteString(host.Log())

	for _, expected := range []string{
		"TargetForbidden", "TargetContentInvalid", "ObjectRejected", "manifests[0].polizy", "pergola_jobs_total",
		`"level":"DEBUG"`, "<html",
	} {
		if !strings.Contains(told.String(), expected) {
			t.Errorf("expected %q to be told, so that something was looked at", expected)
		}
	}
	key := base64.StdEncoding.EncodeToString(controlPlane.Config.KeyData)
	for _, hidden := range []string{marker, base64.StdEncoding.EncodeToString([]byte(marker)), key[:60], "PRIVATE KEY"} {
		for line := range strings.Lines(told.String()) {
			if at := strings.Index(line, hidden); at >= 0 {
				t.Errorf("%q is told: %s", hidden, line[max(0, at-500):min(len(line), at+200)])
			}
		}
	}
}
