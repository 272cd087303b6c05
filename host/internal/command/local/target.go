package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// targetOf returns the Target of an item; nil for an item without a Target.
func (f *CallFlags) targetOf(item *v1alpha1.DeployItem) (*v1alpha1.ResolvedTarget, error) {
	reference := item.Spec.Target
	switch {
	case f.target == "" && reference == nil:
		return nil, nil //nolint:nilnil // an item without a Target is valid
	case f.target == "":
		return nil, fmt.Errorf("item %s: spec.target names the Target %q; give the kubeconfig of its cluster with --target",
			item.Name, reference.Name)
	case reference == nil:
		reference = &v1alpha1.ObjectReference{Name: defaultTarget}
	}
	resolved, err := clusterTarget(item.Namespace, reference.Name, f.target)
	if err != nil {
		return nil, fmt.Errorf("--target: %w", err)
	}
	return resolved, nil
}

// readOtherTargets returns the Targets of --other-target by name.
func (f *CallFlags) readOtherTargets(namespace string) (map[string]*v1alpha1.ResolvedTarget, error) {
	targets := map[string]*v1alpha1.ResolvedTarget{}
	for _, other := range f.otherTargets {
		name, path, _ := strings.Cut(other, "=")
		if name == "" || path == "" {
			return nil, fmt.Errorf("--other-target: expected NAME=FILE, but found %q", other)
		}
		if targets[name] != nil {
			return nil, fmt.Errorf("--other-target: the Target %q is there twice", name)
		}
		var err error
		if targets[name], err = clusterTarget(namespace, name, path); err != nil {
			return nil, fmt.Errorf("--other-target %s: %w", name, err)
		}
	}
	return targets, nil
}

// clusterTarget returns a Target for a kubeconfig.
func clusterTarget(namespace, name, path string) (*v1alpha1.ResolvedTarget, error) {
	kubeconfig, err := inlineKubeconfig(path)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(map[string]string{"kubeconfig": string(kubeconfig)})
	if err != nil {
		return nil, fmt.Errorf("write the content of the Target: %w", err)
	}
	return &v1alpha1.ResolvedTarget{
		Target: &v1alpha1.Target{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Target"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec:       v1alpha1.TargetSpec{Type: v1alpha1.KubernetesClusterTargetType},
		},
		Content: string(content),
	}, nil
}

// inlineKubeconfig returns the current context of a kubeconfig with all files inline: confined plugins cannot read
// them.
func inlineKubeconfig(path string) ([]byte, error) {
	kubeconfig, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	for _, inline := range []func(*clientcmdapi.Config) error{
		clientcmd.ResolveLocalPaths, clientcmdapi.MinifyConfig, clientcmdapi.FlattenConfig,
	} {
		if err := inline(kubeconfig); err != nil {
			return nil, err
		}
	}
	for name, user := range kubeconfig.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("user %q of %s: its credentials come from a command or provider, "+
				"which a Target must not have; use a kubeconfig with a certificate or a token", name, path)
		}
		if user.TokenFile != "" {
			token, err := os.ReadFile(user.TokenFile)
			if err != nil {
				return nil, err
			}
			user.Token, user.TokenFile = string(token), ""
		}
	}
	if len(kubeconfig.Clusters) == 0 {
		return nil, errors.New("the kubeconfig " + path + " has no current context")
	}
	return clientcmd.Write(*kubeconfig)
}
