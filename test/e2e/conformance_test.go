package e2e

import (
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// The finished binaries keep the rules of the protocol, each started by the real handshake.
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
	for path, call := range map[string]sdktest.Call{
		"plugins/mock":     {DeployItem: newItem(namespace, "mock", mockType, mockSucceeds)},
		"plugins/manifest": {DeployItem: newItem(namespace, "manifest", manifestType, manifestConfig(configMap(namespace, "conform", "x"))), Target: target},
		"test/hello":       {DeployItem: newItem(namespace, "hello", "example.org/hello", `{"apiVersion":"example.org/v1","kind":"Hello","greeting":"hi"}`)},
		"test/probe":       {DeployItem: newItem(namespace, "probe", probeType, probeConfig(t.TempDir()))},
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			call.DeployItem.UID, call.JobID = "4f0c1c1e-0000-4000-8000-000000000000", "job"
			sdktest.Conform(t, sdktest.Start(t, filepath.Join(binaries, path)), sdktest.Case{Name: "works", Call: call})
		})
	}
}
