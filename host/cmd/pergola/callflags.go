package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// callFlags say what plugins are called with that are called without a cluster.
type callFlags struct {
	target, context string
	// secrets are files with the Secrets that the Context or the item names.
	secrets []string
	// others are further Targets, as NAME=FILE.
	others []string
}

func (f *callFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "target", "",
		"kubeconfig of the cluster to deploy to; of its current context, with a certificate, token or password in it or in files that it names")
	flags.StringVar(&f.context, "context", "", "file with the Context of the items; without it an empty one")
	flags.StringArrayVar(&f.secrets, "secret", nil,
		"file with a Secret that the Context or the item names, with credentials for registries or chart repositories; may be given several times")
}

func (f *callFlags) addOthersTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.others, "other-target", nil,
		"NAME=FILE: another Target that the item names, and the kubeconfig of its cluster, as for --target; may be given several times")
}

// Where an item says nothing about itself.
const (
	localNamespace = "default"
	localUID       = types.UID("00000000-0000-4000-8000-000000000001")
	localTarget    = "target"
)

// localCall is what a plugin is called with for the item of a file.
type localCall struct {
	item        *v1alpha1.DeployItem
	target      *v1alpha1.ResolvedTarget // nil for none
	context     *v1alpha1.Context
	credentials *sdk.Credentials
	// others are the Targets that the item can name beside its own, by their names.
	others map[string]*v1alpha1.ResolvedTarget
	// secrets are those that the plugin may ask for.
	secrets fileSecrets
}

// read reads the item of a file, and what the flags say it is called with.
func (f *callFlags) read(ctx context.Context, path string) (*localCall, error) {
	item, err := readItem(path)
	if err != nil {
		return nil, err
	}
	own, err := f.targetOf(item)
	if err != nil {
		return nil, err
	}
	others, err := f.otherTargets(item.Namespace)
	if err != nil {
		return nil, err
	}
	itemContext, err := f.readContext(item.Namespace)
	if err != nil {
		return nil, err
	}
	secrets, err := f.readSecrets()
	if err != nil {
		return nil, err
	}
	credentials, err := target.Credentials(ctx, secrets, itemContext)
	if err != nil {
		return nil, err
	}
	return &localCall{
		item: item, target: own, context: itemContext, credentials: credentials, others: others, secrets: secrets,
	}, nil
}

// readItem reads a DeployItem strictly and gives it what it would have in a cluster.
func readItem(path string) (*v1alpha1.DeployItem, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read DeployItem: %w", err)
	}
	item, err := decodeItem(path, text)
	if err != nil {
		return nil, err
	}
	complete(item, localNamespace)
	return item, nil
}

// decodeItem decodes a DeployItem strictly. The path is where it comes from.
func decodeItem(path string, text []byte) (*v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	if err := decodeObject(path, text, "DeployItem", item, &item.TypeMeta); err != nil {
		return nil, err
	}
	if item.Name == "" {
		return nil, fmt.Errorf("read %s: metadata.name is missing", path)
	}
	if item.Spec.Type == "" {
		return nil, fmt.Errorf("read %s: spec.type is missing; it says which plugin the item is for", path)
	}
	return item, nil
}

// complete gives an item what it would have in a cluster.
func complete(item *v1alpha1.DeployItem, namespace string) {
	if item.Namespace == "" {
		item.Namespace = namespace
	}
	if item.UID == "" {
		item.UID = localUID
	}
	if item.Generation == 0 {
		item.Generation = 1
	}
}

// readObject reads an object of one of Landscaper's kinds, strictly.
func readObject(path, kind string, into any, found *metav1.TypeMeta) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", kind, err)
	}
	return decodeObject(path, text, kind, into, found)
}

func decodeObject(path string, text []byte, kind string, into any, found *metav1.TypeMeta) error {
	text, err := onlyDocument(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if want := v1alpha1.GroupVersion.String(); found.Kind != kind || found.APIVersion != want {
		return fmt.Errorf("read %s: expected a %s of %s, but found a %q of %q", path, kind, want, found.Kind, found.APIVersion)
	}
	return nil
}

// onlyDocument returns the one document of a YAML file that is not empty; nothing if there is none.
func onlyDocument(text []byte) ([]byte, error) {
	var only []byte
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return only, nil
		}
		if err != nil {
			return nil, err
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err == nil && content == nil {
			continue
		}
		if only != nil {
			return nil, errors.New("expected one object, but found several")
		}
		only = document
	}
}

// readContext reads the Context.
func (f *callFlags) readContext(namespace string) (*v1alpha1.Context, error) {
	out := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace}}
	if f.context == "" {
		return out, nil
	}
	return out, readObject(f.context, "Context", out, &out.TypeMeta)
}

// targetOf makes the Target of an item; nil for an item without one.
func (f *callFlags) targetOf(item *v1alpha1.DeployItem) (*v1alpha1.ResolvedTarget, error) {
	if f.target == "" {
		if item.Spec.Target != nil {
			return nil, fmt.Errorf("item %s: spec.target names the Target %q; give the kubeconfig of its cluster with --target", item.Name, item.Spec.Target.Name)
		}
		return nil, nil //nolint:nilnil // no target is an ordinary case and no error
	}
	name := localTarget
	if item.Spec.Target != nil {
		name = item.Spec.Target.Name
	}
	target, err := clusterTarget(item.Namespace, name, f.target)
	if err != nil {
		return nil, fmt.Errorf("--target: %w", err)
	}
	return target, nil
}

// otherTargets makes the Targets that an item can name beside its own, by their names.
func (f *callFlags) otherTargets(namespace string) (map[string]*v1alpha1.ResolvedTarget, error) {
	targets := map[string]*v1alpha1.ResolvedTarget{}
	for _, other := range f.others {
		name, path, ok := strings.Cut(other, "=")
		if !ok || name == "" || path == "" {
			return nil, fmt.Errorf("--other-target: expected NAME=FILE, but found %q", other)
		}
		if targets[name] != nil {
			return nil, fmt.Errorf("--other-target: the Target %q is there twice", name)
		}
		target, err := clusterTarget(namespace, name, path)
		if err != nil {
			return nil, fmt.Errorf("--other-target %s: %w", name, err)
		}
		targets[name] = target
	}
	return targets, nil
}

// clusterTarget makes a Target of a kubeconfig.
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

// inlineKubeconfig is the current context of a kubeconfig with everything inside, as a plugin gets it: one that is confined can read
// no files of others.
func inlineKubeconfig(path string) ([]byte, error) {
	kubeconfig, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	if err := clientcmd.ResolveLocalPaths(kubeconfig); err != nil {
		return nil, err
	}
	if err := clientcmdapi.MinifyConfig(kubeconfig); err != nil {
		return nil, err
	}
	if err := clientcmdapi.FlattenConfig(kubeconfig); err != nil {
		return nil, err
	}
	for name, user := range kubeconfig.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil {
			return nil, fmt.Errorf("user %q of %s: a command or provider fetches its credentials, which no Target may have; use a kubeconfig with a certificate or a token", name, path)
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
