package e2e

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// configWith is a provider configuration of the manifest deployer with more fields, and manifests that it manages.
func configWith(t *testing.T, more map[string]any, manifests ...map[string]any) string {
	t.Helper()
	entries := []any{}
	for _, m := range manifests {
		entries = append(entries, map[string]any{"policy": "manage", "manifest": m})
	}
	config := map[string]any{
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
		"manifests": entries,
	}
	maps.Copy(config, more)
	return string(marshal(t, config))
}

// newManifest is an object as it is in a configuration. The namespace is empty for one that is cluster-scoped.
func newManifest(apiVersion, kind, namespace, name string, more map[string]any) map[string]any {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	m := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
	maps.Copy(m, more)
	return m
}

func configMapWith(namespace, name string, data map[string]any) map[string]any {
	return newManifest("v1", "ConfigMap", namespace, name, map[string]any{"data": data})
}

// live returns an object of the target as it is; nil if it is not there.
func live(t *testing.T, manifest map[string]any) *unstructured.Unstructured {
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

// change changes an object of the target as somebody else does it.
func change(t *testing.T, manifest map[string]any, patch string) {
	t.Helper()
	o := (&unstructured.Unstructured{Object: manifest}).DeepCopy()
	if err := admin.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatalf("change %s: %v", o.GetName(), err)
	}
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

// mustMention checks that a text has all the parts.
func mustMention(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not mention %q: %q", what, part, text)
		}
	}
}
