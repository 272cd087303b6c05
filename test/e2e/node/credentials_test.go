package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ownResult is the Secret that the wait container of a Pod writes.
const ownResult = "/api/v1/namespaces/" + podNamespace + "/secrets/$POD_NAME-result"

// shown is what the image of the tests tells of the credentials that it has found.
type shown struct{ Tokens, Read, Refused []string }

// TestCredentials: whoever runs in a Pod of the container deployer reads nothing with what is found there. That is no
// token in init, one in wait, not even for what wait writes, and none in main, unless it was given a ServiceAccount.
func TestCredentials(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := newWorld(t)
	show, hang := []string{"show-credentials", ownResult}, []string{"show-credentials", ownResult, "--", "hang"}
	w.startHost(w.hostWith(nil, object{
		"initContainer": object{"image": stepImage, "imagePullPolicy": "IfNotPresent", "args": show},
		"waitContainer": object{"imagePullPolicy": "IfNotPresent", "args": hang},
	}))
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "chosen", Namespace: podNamespace}})
	main := stepConfig(hang...)
	jobs := map[string]string{
		"shop": w.put("shop", main), "chosen": w.put("chosen", with(main, object{"serviceAccountName": "chosen"})),
	}
	for name, job := range jobs {
		pod := w.pod(name, running)
		tokens := map[string]int{"init": 0, "wait": 1, "main": 0}
		if name == "chosen" {
			tokens["main"] = 1
		}
		for container, count := range tokens {
			s := w.shown(pod, container)
			if len(s.Tokens) != count || len(s.Read) > 0 {
				t.Errorf("%s: expected %d tokens in %s that read nothing, but found %+v", name, count, container, s)
			}
			if want := "nobody: /api/v1/secrets: 403"; !slices.Contains(s.Refused, want) {
				t.Errorf("%s: expected that %s is refused %q, but found %v", name, container, want, s.Refused)
			}
			for _, token := range s.Tokens {
				for _, path := range []string{"/secrets", "/secrets/" + pod.Name + "-result", "/configmaps", "/pods"} {
					if want := token + ": /api/v1/namespaces/" + podNamespace + path + ": 403"; !slices.Contains(s.Refused, want) {
						t.Errorf("%s: expected that %s is refused %q, but found %v", name, container, want, s.Refused)
					}
				}
			}
		}
		w.annotate(name, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
		w.finish(name, job, failed)
	}
}

// shown returns what a container of a Pod has printed.
func (w *world) shown(pod *corev1.Pod, container string) (s shown) {
	w.Helper()
	clients, err := kubernetes.NewForConfig(node.Config)
	if err != nil {
		w.Fatal(err)
	}
	w.eventually("container "+container+" to show its credentials", func(ctx context.Context) (string, error) {
		log := clients.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container})
		said, err := log.DoRaw(ctx)
		if err != nil || !strings.HasPrefix(string(said), "{") || !strings.HasSuffix(string(said), "\n") {
			return fmt.Sprintf("it says %q (%v)", said, err), nil
		}
		first, _, _ := strings.Cut(string(said), "\n")
		return "", json.Unmarshal([]byte(first), &s)
	})
	return s
}
