package container

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ownResult is the Secret that the wait container of a Pod writes.
const ownResult = "/api/v1/namespaces/" + podNamespace + "/secrets/$POD_NAME-result"

// shown is what the image of the tests tells of the credentials that it has found.
type shown struct{ Tokens, Read, Refused []string }

// TestCredentialsOfHelpers: whoever runs in the place of the containers init and wait finds no token there, or one that reads nothing, not even
// what it writes.
func TestCredentialsOfHelpers(t *testing.T) {
	w := emptyWorld(t)
	o, err := newHost(t.TempDir(), nil, object{
		"initContainer": object{"image": stepImage, "imagePullPolicy": "IfNotPresent", "args": []string{"show-credentials", ownResult}},
		"waitContainer": object{"imagePullPolicy": "IfNotPresent", "args": []string{"show-credentials", ownResult, "--", "hang"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.startHost(o)
	job := w.put("shop", stepConfig("hang"))
	pod := w.pod("shop", "running", running)

	init := w.shown(pod, "init")
	if len(init.Tokens) > 0 || len(init.Read) > 0 {
		t.Errorf("init has found tokens in %v and could read %v", init.Tokens, init.Read)
	}
	if want := "nobody: /api/v1/secrets: 403"; !slices.Contains(init.Refused, want) {
		t.Errorf("expected that init is refused %q, but found %v", want, init.Refused)
	}

	wait := w.shown(pod, "wait")
	if len(wait.Tokens) != 1 || !strings.HasPrefix(wait.Tokens[0], "/data/ls/internal/access/") {
		t.Fatalf("expected that wait has one token, that of its run, but found %v", wait.Tokens)
	}
	if len(wait.Read) > 0 {
		t.Errorf("wait could read %v", wait.Read)
	}
	for _, path := range []string{"/secrets", "/secrets/" + pod.Name + "-result", "/configmaps", "/pods"} {
		if want := wait.Tokens[0] + ": /api/v1/namespaces/" + podNamespace + path + ": 403"; !slices.Contains(wait.Refused, want) {
			t.Errorf("expected that wait is refused %q, but found %v", want, wait.Refused)
		}
	}

	w.annotate("shop", v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	w.finish("shop", job, v1alpha1.DeployItemPhaseFailed)
	w.mustHaveOnly(w.uid("shop"), "result", "state")
}

// shown returns what a container of a Pod has printed.
func (w *world) shown(pod *corev1.Pod, container string) (s shown) {
	w.Helper()
	clients, err := kubernetes.NewForConfig(node.Config)
	if err != nil {
		w.Fatal(err)
	}
	w.eventually("container "+container+" to show its credentials", func(ctx context.Context) (string, error) {
		said, err := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).DoRaw(ctx)
		if err != nil || !strings.HasPrefix(string(said), "{") || !strings.HasSuffix(string(said), "\n") {
			return fmt.Sprintf("it says %q (%v)", said, err), nil
		}
		first, _, _ := strings.Cut(string(said), "\n")
		return "", json.Unmarshal([]byte(first), &s)
	})
	return s
}

// TestCredentials: with what it finds in its container main reads nothing, unless it was given a ServiceAccount.
func TestCredentials(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	exports := w.succeed("shop", stepConfig("touch-credentials"))
	if diff := cmp.Diff([]any{}, exports["tokens"]); diff != "" && exports["tokens"] != nil {
		t.Errorf("found tokens in main: %s", diff)
	}
	if read, _ := exports["read"].([]any); len(read) > 0 {
		t.Errorf("main could read %v", read)
	}
	if refused := fmt.Sprint(exports["refused"]); !strings.Contains(refused, "nobody: /api/v1/secrets: 403") {
		t.Errorf("main should have been refused, but found %s", refused)
	}
	chosen := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "chosen", Namespace: podNamespace}}
	w.create(chosen)
	exports = w.succeed("chosen", with(stepConfig("touch-credentials"), object{"serviceAccountName": "chosen"}))
	if tokens, _ := exports["tokens"].([]any); len(tokens) == 0 {
		t.Error("main has asked for a ServiceAccount, and has got no token")
	}
	if read, _ := exports["read"].([]any); len(read) > 0 {
		t.Errorf("main could read %v", read)
	}
}
