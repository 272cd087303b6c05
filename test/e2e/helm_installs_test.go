package e2e

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestOneDeployerInstallsAnother: the helm deployer of one Pergola installs another Pergola beside a Landscaper, and
// removes it with its item.
// Rule (operators-guide.md#install-by-landscaper): One deployer installs another.
func TestOneDeployerInstallsAnother(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "helm")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "target")
	config := string(marshal(t, map[string]any{
		"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
		"chart": map[string]any{"archive": map[string]any{"raw": packedPergola(t)}},
		"name":  "second", "namespace": namespace,
		"values": map[string]any{
			"standalone": false, "identity": "second-pergola", "plugins": object{"helm": object{"enabled": false}},
		},
	}))
	item := withTarget(newItem(namespace, "item", string(helmv1alpha1.Type), config), "target")
	create(t, item)
	job := setJob(t, item)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "second-pergola"}
	deployment, budget := &appsv1.Deployment{ObjectMeta: meta}, &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	eventually(t, "the release to be there", func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(deployment), deployment); err != nil {
			return err.Error(), client.IgnoreNotFound(err)
		}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return err.Error(), client.IgnoreNotFound(err)
		}
		return "", nil
	})
	// As its controllers do, which are not here.
	setDeploymentReady(t, client.ObjectKeyFromObject(deployment))
	budget.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: budget.Generation, CurrentHealthy: 1, DisruptionsAllowed: 1, ExpectedPods: 1,
	}
	if err := admin.Status().Update(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	if item = waitFinished(t, item, job); item.Status.Phase != succeeded {
		t.Fatalf("expected success, but found %s", describe(item))
	}
	configuration := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: "second-pergola-configuration"}
	if err := admin.Get(t.Context(), key, configuration); err != nil {
		t.Fatal(err)
	}
	if text := string(configuration.Data["host.yaml"]); !strings.Contains(text, "second-pergola") {
		t.Errorf("the second host does not go by its name: %s", text)
	}
	deleteItem(t, item)
	err := admin.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("expected the Deployment to be gone, but found %v", err)
	}
}

// packedPergola is the chart of Pergola as an archive in base64.
func packedPergola(t *testing.T) string {
	t.Helper()
	chart, err := loader.LoadDir(filepath.Join(testenv.Root(), "charts", "pergola"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := chartutil.Save(chart, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(archive)
}
