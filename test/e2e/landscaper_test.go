package e2e

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// withLandscapersKinds leaves out what a Landscaper brings no definition of.
func withLandscapersKinds(env *envtest.Environment) {
	env.CRDs = slices.DeleteFunc(env.CRDs, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return d.Spec.Names.Kind == "DeployerRegistration"
	})
}

// TestLandscapersKinds: the kinds that a Landscaper brings are enough for a host, also with locks.
// Rule (operators-guide.md#install-by-landscaper): A Landscaper's own definitions are enough for a host.
func TestLandscapersKinds(t *testing.T) {
	c, landscaper := testenv.StartForTest(t, withLandscapersKinds)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const namespace = "shop"
	item := newItem(namespace, "item", mockType, mockSucceeds)
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace}},
		item,
	} {
		if err := landscaper.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	item.Status.JobID = uuid.NewString()
	if err := landscaper.Status().Update(ctx, item); err != nil {
		t.Fatal(err)
	}
	host, err := testenv.StartReplica(ctx, c, testenv.HostOptions{
		Binary: binaries + "/pergola", PluginDir: pluginDir(t, "mock"), Config: writeConfig(t, anyConfig),
		PodNamespace: namespace, PodName: "pergola-0",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	if err := host.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the item to be carried out", func(ctx context.Context) (string, error) {
		if err := landscaper.Get(ctx, client.ObjectKeyFromObject(item), item); err != nil {
			return "", err
		}
		if item.Status.JobIDFinished == item.Status.JobID && item.Status.Phase == succeeded {
			return "", nil
		}
		return describe(item), nil
	})
}
