package image

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
)

type object = map[string]any

const hostNamespace, hostName = "pergola-system", "pergola"

// deploy creates the Deployment of the page. It is deleted at the end of the test, with its Pods.
func deploy(t *testing.T) {
	t.Helper()
	if _, err := shell(t.Context(), work, "kubectl apply -f deployment.yaml"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if t.Failed() {
			t.Log(explain(ctx))
		}
		if _, err := shell(ctx, work, "kubectl delete deployment pergola -n pergola-system --cascade=foreground"); err != nil {
			t.Error(err)
		}
		eventually(ctx, t, "the Pods to be gone", func(ctx context.Context) (string, error) {
			found := &corev1.PodList{}
			err := admin.List(ctx, found, client.InNamespace(hostNamespace))
			if len(found.Items) > 0 {
				return fmt.Sprintf("there are %d", len(found.Items)), err
			}
			return "", err
		})
	})
}

// explain says what the Pods of the host are at.
func explain(ctx context.Context) string {
	out, err := shell(ctx, work, "kubectl describe pods -n pergola-system; "+
		"kubectl logs -n pergola-system -l app.kubernetes.io/name=pergola --all-containers --tail=100 || true")
	if err != nil {
		return err.Error()
	}
	return out
}

// awaitRollout waits until there is one Pod, which is ready, of the Deployment as it is now.
func awaitRollout(t *testing.T) {
	t.Helper()
	eventually(t.Context(), t, "the Deployment to be rolled out", func(ctx context.Context) (string, error) {
		d := &appsv1.Deployment{}
		if err := admin.Get(ctx, client.ObjectKey{Namespace: hostNamespace, Name: hostName}, d); err != nil {
			return "", err
		}
		s := d.Status
		if s.ObservedGeneration != d.Generation || s.UpdatedReplicas != 1 || s.Replicas != 1 || s.AvailableReplicas != 1 {
			return fmt.Sprintf("generation %d, status %+v", d.Generation, s), nil
		}
		return "", nil
	})
}

// newNamespace creates a namespace for items.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "items-" + uuid.NewString()[:8]}}
	if err := admin.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// carryOut creates an item of a type and waits for its success. It returns its exports.
func carryOut(
	t *testing.T, namespace string, itemType v1alpha1.DeployItemType, config object, change ...func(*v1alpha1.DeployItem),
) (exports object) {
	t.Helper()
	item := newItem(t, namespace, itemType, config)
	for _, c := range change {
		c(item)
	}
	if err := admin.Create(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	eventually(t.Context(), t, fmt.Sprintf("the item of type %s to succeed", itemType), func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(item), item); err != nil {
			return "", err
		}
		if item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded {
			return "", nil
		}
		return fmt.Sprintf("phase %q, conditions %v, last error %+v", item.Status.Phase, item.Status.Conditions, item.Status.LastError), nil
	})
	if item.Status.ExportReference == nil {
		return nil
	}
	secret := &corev1.Secret{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: item.Status.ExportReference.Name}, secret); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(secret.Data["config"], &exports); err != nil {
		t.Fatal(err)
	}
	return exports
}

func newItem(t *testing.T, namespace string, itemType v1alpha1.DeployItemType, config object) *v1alpha1.DeployItem {
	t.Helper()
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "item-", Namespace: namespace},
		Spec:       v1alpha1.DeployItemSpec{Type: itemType, Config: &runtime.RawExtension{Raw: marshal(t, config)}},
	}
}

// greet has the third-party plugin carry out an item.
func greet(t *testing.T) {
	t.Helper()
	exports := carryOut(t, newNamespace(t), "example.org/hello", object{
		"apiVersion": "example.org/v1", "kind": "HelloConfiguration", "greeting": "good morning",
	})
	if exports["greeting"] != "good morning" {
		t.Errorf("expected the greeting, but found %v", exports)
	}
}

// pretend has the mock deployer carry out an item.
func pretend(t *testing.T) {
	t.Helper()
	exports := carryOut(t, newNamespace(t), "landscaper.gardener.cloud/mock", object{
		"apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration", "export": object{"answer": 42},
	})
	if exports["answer"] != 42.0 {
		t.Errorf("expected the answer, but found %v", exports)
	}
}

// listed are the files of the plugins that the host's Pod knows, with their states, as its own program says.
func listed(t *testing.T) map[string]string {
	t.Helper()
	out, err := shell(t.Context(), work, "kubectl exec -n pergola-system deploy/pergola -c pergola -- pergola plugins list -o json")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Plugins []struct{ File, State, Problem string }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	states := map[string]string{}
	for _, p := range answer.Plugins {
		states[p.File] = strings.TrimSpace(p.State + " " + p.Problem)
	}
	return states
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// eventually waits until a condition returns "", which otherwise says what is the case. What is not there yet is waited for.
func eventually(ctx context.Context, t *testing.T, what string, condition func(context.Context) (string, error)) {
	t.Helper()
	await.For(ctx, t, patience, what, func(ctx context.Context) (string, error) {
		found, err := condition(ctx)
		if apierrors.IsNotFound(err) {
			return err.Error(), nil
		}
		return found, err
	})
}
