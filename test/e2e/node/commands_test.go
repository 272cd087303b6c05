package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// run runs a command of an operator, kubectl or helm, and returns what it prints.
func run(ctx context.Context, program string, args ...string) (string, error) {
	assets, err := testenv.Assets(ctx)
	if err != nil {
		return "", err
	}
	path := map[string]string{
		"kubectl": filepath.Join(assets, "kubectl"), "helm": built("tools", "helm"), "pergola": built("pergola"),
	}[program]
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = testenv.Root(), append(os.Environ(), "KUBECONFIG="+node.Kubeconfig())
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

func (w *world) run(program string, args ...string) string {
	w.Helper()
	out, err := run(w.Context(), program, args...)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// awaitReplicas waits until there are so many ready Pods of a Deployment as it is now, and no others.
func (w *world) awaitReplicas(namespace, name string, n int32) {
	w.Helper()
	w.eventually(fmt.Sprintf("%d replicas", n), func(ctx context.Context) (string, error) {
		d := &appsv1.Deployment{}
		if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
			return "", err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != n || s.Replicas != n || s.ReadyReplicas != n {
			return fmt.Sprintf("generation %d, %+v", d.Generation, s), nil
		}
		return "", nil
	})
}

// explain says what the Pods of a host are at, if a test has failed.
func explain(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{
		{"describe", "pods", "-n", namespace},
		{"logs", "-n", namespace, "-l", "app.kubernetes.io/name=pergola", "--all-containers", "--tail=60", "--prefix"},
	} {
		out, err := run(ctx, "kubectl", args...)
		t.Log(out, err)
	}
}
