package e2e

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration", "manifests": entries,
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

// resourceGroup is the API group of the kinds that tests of the manifest deployer define.
const resourceGroup = "e2e.example.org"

// definitionOf is a CustomResourceDefinition of a namespaced kind whose resources may hold anything.
func definitionOf(kind string) map[string]any {
	singular := strings.ToLower(kind)
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return newManifest(apiextensionsv1.SchemeGroupVersion.String(), "CustomResourceDefinition", "", singular+"s."+resourceGroup, map[string]any{
		"spec": map[string]any{
			"group": resourceGroup, "scope": "Namespaced",
			"names": map[string]any{"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"subresources": map[string]any{"status": map[string]any{}},
				"schema":       map[string]any{"openAPIV3Schema": anything},
			}},
		},
	})
}

func resourceOf(kind, namespace, name string) map[string]any {
	return newManifest(resourceGroup+"/v1", kind, namespace, name, map[string]any{"spec": map[string]any{"size": int64(1)}})
}

// setConfig gives an item another configuration, and returns it.
func setConfig(t *testing.T, item *v1alpha1.DeployItem, config string) *v1alpha1.DeployItem {
	t.Helper()
	item = item.DeepCopy()
	edit(t, item, func() { item.Spec.Config = &runtime.RawExtension{Raw: []byte(config)} })
	return item
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

// destroy deletes an object of the target as somebody else does it.
func destroy(t *testing.T, manifest map[string]any) {
	t.Helper()
	deleteObject(t, &unstructured.Unstructured{Object: manifest})
}

// put creates an object on the target as somebody else does it, and returns it.
func put(t *testing.T, manifest map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := (&unstructured.Unstructured{Object: manifest}).DeepCopy()
	create(t, o)
	return o
}

// waitNotThere waits until an object is gone from the target.
func waitNotThere(t *testing.T, manifest map[string]any) {
	t.Helper()
	o := &unstructured.Unstructured{Object: manifest}
	eventually(t, o.GetKind()+" "+o.GetName()+" to be gone", func(context.Context) (string, error) {
		if live(t, manifest) != nil {
			return "it is there", nil
		}
		return "", nil
	})
}

// waitEstablished waits until the API server serves the kind of a definition.
func waitEstablished(t *testing.T, kind string) {
	t.Helper()
	eventually(t, "kind "+kind+" to be served", func(ctx context.Context) (string, error) {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(resourceGroup + "/v1")
		list.SetKind(kind + "List")
		if err := admin.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return err.Error(), nil //nolint:nilerr // that is what is waited for
		}
		return "", nil
	})
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

// finalizeNamespace does what the controller of namespaces does with one that is being deleted, which the cluster of the tests has not: the
// namespace goes, once the caller has deleted what is in it.
func finalizeNamespace(t *testing.T, namespace string) {
	t.Helper()
	m := newManifest("v1", "Namespace", "", namespace, nil)
	o := live(t, m)
	o.Object["spec"] = map[string]any{}
	if err := admin.SubResource("finalize").Update(t.Context(), o); err != nil {
		t.Fatalf("finalize namespace: %v", err)
	}
	waitNotThere(t, m)
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
