package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var targetGVK = v1alpha1.GroupVersion.WithKind("Target")

// readTargets adds the objects of --target: Targets and Secrets, or the Target of the item for a kubeconfig.
func (f *CallFlags) readTargets(objects *store, item *v1alpha1.DeployItem) error {
	if f.target == "" {
		return nil
	}
	text, err := os.ReadFile(f.target)
	if err != nil {
		return fmt.Errorf("--target: %w", err)
	}
	var found []client.Object
	documents, err := documentsOf(text)
	switch {
	case err != nil:
	case isKubeconfig(documents):
		found, err = clusterTarget(f.target, item.Spec.Target)
	default:
		found, err = targetObjects(documents)
	}
	for i := 0; err == nil && i < len(found); i++ {
		err = objects.add(found[i])
	}
	if err != nil {
		return fmt.Errorf("--target: read %s: %w", f.target, err)
	}
	return nil
}

// isKubeconfig reports whether a file is meant to be a kubeconfig. As for kubectl, it needs no kind.
func isKubeconfig(documents [][]byte) bool {
	var first metav1.TypeMeta
	return len(documents) == 0 || yaml.Unmarshal(documents[0], &first) != nil || first.Kind == "" || first.Kind == "Config"
}

// targetObjects returns the Targets and Secrets in documents. Its errors quote nothing of a Secret.
func targetObjects(documents [][]byte) (all []client.Object, _ error) {
	targets := 0
	for i, document := range documents {
		var head metav1.TypeMeta
		if yaml.Unmarshal(document, &head) != nil {
			return nil, fmt.Errorf("document %d is no valid YAML; correct its syntax", i+1)
		}
		switch found := head.GroupVersionKind(); found {
		case targetGVK:
			t := &v1alpha1.Target{}
			err := decode(document, targetGVK, t)
			if err == nil && t.Spec.Type == "" {
				err = errors.New("spec.type is missing; it names the form of the content, such as example.org/account")
			}
			if err != nil {
				return nil, fmt.Errorf("the Target %q: %w", t.Name, err)
			}
			all, targets = append(all, t), targets+1
		case secretGVK:
			secret, err := secretOf(document)
			if err != nil {
				return nil, fmt.Errorf("document %d: %w", i+1, err)
			}
			all = append(all, secret)
		default:
			return nil, fmt.Errorf("document %d: expected a Target of %s or a Secret of v1, but found a %q of %q; remove it",
				i+1, v1alpha1.GroupVersion, found.Kind, found.GroupVersion())
		}
	}
	if targets == 0 {
		return nil, fmt.Errorf("expected a Target of %s, but found Secrets alone; add the Target", v1alpha1.GroupVersion)
	}
	return all, nil
}

// resolveTargets resolves the Targets of a call as a host does, and selects that of the item.
func (f *CallFlags) resolveTargets(ctx context.Context, call *Call) (err error) {
	call.Targets = map[string]*v1alpha1.ResolvedTarget{}
	for _, object := range call.objects.objects {
		if _, ok := object.(*v1alpha1.Target); !ok {
			continue
		}
		name := object.GetName()
		call.Targets[name], err = call.resolver.Named(ctx, call.DeployItem.Namespace, name)
		if wrong, ok := errors.AsType[*target.Error](err); ok && wrong.Reason == target.ReasonSecretNotFound {
			err = fmt.Errorf("%w, as a further YAML document of this file", err)
		}
		if err != nil {
			return fmt.Errorf("--target: read %s: %w", f.target, err)
		}
	}
	call.Target, err = f.targetOf(call.DeployItem, call.Targets)
	return err
}

// targetOf returns the Target of an item; nil for an item without a Target.
func (f *CallFlags) targetOf(
	item *v1alpha1.DeployItem, targets map[string]*v1alpha1.ResolvedTarget,
) (*v1alpha1.ResolvedTarget, error) {
	reference, names := item.Spec.Target, slices.Sorted(maps.Keys(targets))
	switch {
	case reference == nil && len(names) == 0:
		return nil, nil //nolint:nilnil // an item without a Target is valid
	case reference == nil && len(names) == 1:
		return targets[names[0]], nil
	case reference == nil:
		return nil, fmt.Errorf("item %s: spec.target is missing, but %s has several Targets; "+
			"name one of %q in spec.target.name", item.Name, f.target, names)
	case f.target == "":
		return nil, fmt.Errorf("item %s: spec.target.name is %q; give a file with this Target, or the kubeconfig of its "+
			"cluster, with --target", item.Name, reference.Name)
	case targets[reference.Name] == nil:
		return nil, fmt.Errorf("item %s: spec.target.name is %q, but %s has only %q; correct one of the names",
			item.Name, reference.Name, f.target, names)
	}
	return targets[reference.Name], nil
}

// clusterTarget returns a Target for a kubeconfig, with a name for the reference of an item.
func clusterTarget(path string, reference *v1alpha1.ObjectReference) ([]client.Object, error) {
	kubeconfig, err := inlineKubeconfig(path)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	if err != nil {
		return nil, fmt.Errorf("write the content of the Target: %w", err)
	}
	t := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: defaultTarget},
		Spec: v1alpha1.TargetSpec{
			Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{Raw: content},
		},
	}
	t.SetGroupVersionKind(targetGVK)
	if reference != nil {
		t.Name = reference.Name
	}
	return []client.Object{t}, nil
}

// inlineKubeconfig returns the current context of a kubeconfig with all files inline: a Target has none.
func inlineKubeconfig(path string) ([]byte, error) {
	kubeconfig, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	if kubeconfig.CurrentContext == "" {
		return nil, errors.New("expected a kubeconfig with a current context, or a Target of " +
			v1alpha1.GroupVersion.String() + " with its Secret")
	}
	for _, inline := range []func(*clientcmdapi.Config) error{
		clientcmd.ResolveLocalPaths, clientcmdapi.MinifyConfig, clientcmdapi.FlattenConfig,
	} {
		if err := inline(kubeconfig); err != nil {
			return nil, err
		}
	}
	for _, user := range kubeconfig.AuthInfos {
		if user.TokenFile != "" {
			token, err := os.ReadFile(user.TokenFile)
			if err != nil {
				return nil, err
			}
			user.Token, user.TokenFile = strings.TrimSpace(string(token)), ""
		}
	}
	return clientcmd.Write(*kubeconfig)
}
