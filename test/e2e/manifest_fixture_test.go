package e2e

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// manifestItem is an item of the manifest deployer with these objects.
func manifestItem(namespace, name, target string, objects ...object) *v1alpha1.DeployItem {
	return withTarget(newItem(namespace, name, manifestType, manifestConfig(objects...)), target)
}

// manifestConfig is a configuration of the manifest deployer with these objects.
func manifestConfig(objects ...object) string { return manifestConfigWith(nil, objects...) }

// manifestConfigWith is a configuration of the manifest deployer with more fields.
func manifestConfigWith(more object, objects ...object) string {
	manifests := []object{}
	for _, o := range objects {
		manifests = append(manifests, object{"policy": "manage", "manifest": o})
	}
	config := object{
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
		"manifests": manifests,
	}
	maps.Copy(config, more)
	return string(marshaled(config))
}

// manifest is an object of a configuration.
func manifest(apiVersion, kind, namespace, name string, more object) object {
	o := object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name, "namespace": namespace}}
	maps.Copy(o, more)
	return o
}

func configMap(namespace, name, value string) object {
	return manifest("v1", "ConfigMap", namespace, name, object{"data": object{"key": value}})
}

// unreadyDeployment stays in progress until its status says that it is ready: there is no kubelet here.
func unreadyDeployment(namespace string) object {
	labels := object{"app": "slow"}
	return manifest("apps/v1", "Deployment", namespace, "slow", object{"spec": object{
		"replicas": 1, "selector": object{"matchLabels": labels}, "template": object{
			"metadata": object{"labels": labels},
			"spec":     object{"containers": []object{{"name": "c", "image": "none"}}},
		},
	}})
}

// live returns an object of the target as it is; nil if it is not there.
func live(t *testing.T, manifest object) *unstructured.Unstructured {
	t.Helper()
	found := (&unstructured.Unstructured{Object: manifest}).DeepCopy()
	err := admin.Get(t.Context(), client.ObjectKeyFromObject(found), found)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		t.Fatalf("read %s: %v", found.GetName(), err)
	}
	return found
}

// kubectl runs kubectl as the administrator of the cluster, and waits for it.
func kubectl(t *testing.T, args ...string) printed {
	t.Helper()
	assets, err := testenv.Assets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(assets, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+controlPlane.Kubeconfig)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return printed{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}
