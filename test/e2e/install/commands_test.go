package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// command prepares a program that an operator runs: kubectl, helm or pergola.
func command(ctx context.Context, args ...string) (*exec.Cmd, error) {
	assets, err := testenv.Assets(ctx)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(assets, args[0])
	switch args[0] {
	case "helm":
		program = built("tools", "helm")
	case "pergola":
		program = built("test-image", "programs", "linux", runtime.GOARCH, "pergola")
	}
	cmd := exec.CommandContext(ctx, program, args[1:]...)
	cmd.Dir, cmd.Env = testenv.Root(), append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return cmd, nil
}

// runs runs a command and returns what it prints.
func runs(t *testing.T, args ...string) string {
	t.Helper()
	cmd, err := command(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// helm installs or upgrades the release with these values besides those that all have, and waits until it is there.
func helm(ctx context.Context, how, tag string, values ...string) (string, error) {
	args := []string{
		"helm", how, release, "charts/pergola", "--namespace", system, "--create-namespace", "--wait", "--timeout", patience.String(),
		"--set", "standalone=true,plugins.mock.enabled=true,image.repository=localhost/pergola,image.tag=" + tag + ",image.pullPolicy=Never",
		"--set", "plugins.container.helperImage.repository=localhost/container-helper,plugins.container.helperImage.tag=" + version,
		"--set", "rbac.targetTokenNamespaces={" + examples + "},targetServiceAccount=" + deployer,
		"--set-json", `extraPlugins={"counter": {"image": {"repository": "localhost/counter", "tag": "1", "pullPolicy": "Never"}, "confinement": {"write": ["/evidence"]}}}`,
		"--set-json", `extraVolumes=[{"name": "evidence", "hostPath": {"path": "` + evidence + `"}}]`,
		"--set-json", `extraVolumeMounts=[{"name": "evidence", "mountPath": "/evidence"}]`,
	}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	cmd, err := command(ctx, args...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func mustHelm(t *testing.T, how, tag string, values ...string) string {
	t.Helper()
	out, err := helm(t.Context(), how, tag, values...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// explain says what the Pods of the host are at, should a test fail.
func explain(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx := context.WithoutCancel(t.Context())
		for _, args := range [][]string{
			{"kubectl", "get", "pods,events", "-A"},
			{"kubectl", "logs", "-n", system, "-l", "app.kubernetes.io/name=pergola", "--tail=60", "--prefix"},
		} {
			if cmd, err := command(ctx, args...); err == nil {
				out, err := cmd.CombinedOutput()
				t.Logf("%s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	})
}

// eventually waits until a condition returns "", which otherwise says what is the case. What is not there yet is waited for.
func eventually(t *testing.T, what string, condition func(context.Context) (string, error)) {
	t.Helper()
	await.For(t.Context(), t, patience, what, func(ctx context.Context) (string, error) {
		found, err := condition(ctx)
		if apierrors.IsNotFound(err) {
			return err.Error(), nil
		}
		return found, err
	})
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
