package install

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// prepareExamples creates the namespace of the examples, with a ServiceAccount that may do everything, and a Target that says no more than that it
// is this cluster.
func prepareExamples(t *testing.T) {
	t.Helper()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: examples}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: examples, Name: deployer}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "deployer-of-examples"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: examples, Name: deployer}},
		},
	} {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// createTarget creates the Target of the examples, for which there has to be a CustomResourceDefinition.
func createTarget(t *testing.T) {
	t.Helper()
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Namespace: examples, Name: "cluster"},
		Spec: v1alpha1.TargetSpec{
			Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{Raw: []byte(`{"selfConfig": {}}`)},
		},
	}
	if err := admin.Create(t.Context(), target); err != nil {
		t.Fatal(err)
	}
}

// applyExamples creates the examples of all plugins.
func applyExamples(t *testing.T) {
	t.Helper()
	for _, name := range []string{"mock", "manifest", "helm", "container"} {
		content, err := os.ReadFile(filepath.Join(testenv.Root(), "test", "examples", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		item := &v1alpha1.DeployItem{}
		if err := yaml.UnmarshalStrict(content, item); err != nil {
			t.Fatal(err)
		}
		item.Namespace = examples
		if name == "helm" { // no registry is there; the chart is in the item
			item.Spec.Config.Raw = withChart(t, item.Spec.Config.Raw)
		}
		if err := admin.Create(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"mock", "manifest", "helm", "container"} {
		awaitSuccess(t, name)
	}
}

// withChart is a provider configuration of the helm deployer with the chart of the example inside.
func withChart(t *testing.T, config []byte) []byte {
	t.Helper()
	plain, err := loader.LoadDir(filepath.Join(testenv.Root(), "test", "charts", "plain"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := chartutil.Save(plain, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := yaml.Unmarshal(config, &fields); err != nil {
		t.Fatal(err)
	}
	fields["chart"] = map[string]any{"archive": map[string]any{"raw": base64.StdEncoding.EncodeToString(packed)}}
	return marshal(t, fields)
}

// awaitSuccess waits until the latest job of an example has succeeded.
func awaitSuccess(t *testing.T, name string) {
	t.Helper()
	eventually(t, "the item "+name+" to succeed", func(ctx context.Context) (string, error) {
		item := &v1alpha1.DeployItem{}
		if err := admin.Get(ctx, client.ObjectKey{Namespace: examples, Name: name}, item); err != nil {
			return "", err
		}
		if s := item.Status; s.Phase != v1alpha1.DeployItemPhaseSucceeded || s.JobID != s.JobIDFinished {
			return fmt.Sprintf("phase %q, conditions %+v, last error %+v", s.Phase, s.Conditions, s.LastError), nil
		}
		return "", nil
	})
}
