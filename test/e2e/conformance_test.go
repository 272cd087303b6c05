package e2e

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestBinariesConform: the finished programs keep the rules of the protocol, each started by the real handshake.
func TestBinariesConform(t *testing.T) {
	namespace := newNamespace(t)
	kubeconfig, err := testenv.InlineKubeconfig(controlPlane.Config)
	if err != nil {
		t.Fatal(err)
	}
	target := &sdk.Target{
		Name: "my-target", Type: v1alpha1.KubernetesClusterTargetType,
		Content: marshal(t, map[string]string{"kubeconfig": string(kubeconfig)}),
	}
	manifest := manifestConfig(configMap(namespace, "conform", "x"))
	const hello = `{"apiVersion":"example.org/v1","kind":"Hello","greeting":"hi"}`
	for path, call := range map[string]sdktest.Call{
		"plugins/mock":     {DeployItem: newItem(namespace, "mock", mockType, mockSucceeds)},
		"plugins/manifest": {DeployItem: newItem(namespace, "manifest", manifestType, manifest), Target: target},
		"plugins/helm": {
			DeployItem: newItem(namespace, "helm", helmType, plainRelease(namespace, "conform")), Target: target,
		},
		"test/hello": {DeployItem: newItem(namespace, "hello", "example.org/hello", hello)},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			call.DeployItem.UID, call.JobID = "4f0c1c1e-0000-4000-8000-000000000000", "job"
			sdktest.Conform(t, sdktest.Start(t, filepath.Join(binaries, path)), sdktest.Case{Name: "works", Call: call})
		})
	}
}

const helmType = "landscaper.gardener.cloud/helm"

// plainRelease is a provider configuration of helm with the chart plain in it.
func plainRelease(namespace, name string) string {
	chart := base64.StdEncoding.EncodeToString(charts.Pack("plain"))
	return fmt.Sprintf(`{"apiVersion":"helm.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderConfiguration",
		"name":%q,"namespace":%q,"chart":{"archive":{"raw":%q}}}`, name, namespace, chart)
}
