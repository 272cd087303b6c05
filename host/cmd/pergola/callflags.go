package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// callFlags say what plugins are called with that are called without a cluster.
type callFlags struct {
	target, context string
	// secrets are files with the Secrets that the Context or the item names.
	secrets []string
	// configMap is the file with the ConfigMap that the Context names.
	configMap string
	// others are further Targets, as NAME=FILE.
	others []string
}

func (f *callFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "target", "", "kubeconfig of the cluster to deploy to; of its current context, "+
		"with a certificate, token or password in it or in files that it names")
	flags.StringVar(&f.context, "context", "", "file with the Context of the items; without it an empty one")
	flags.StringArrayVar(&f.secrets, "secret", nil, "file with a Secret that the Context or the item names, "+
		"with credentials for registries or chart repositories; may be given several times")
	flags.StringVar(&f.configMap, "config-map", "", "file with the ConfigMap that ocmConfig of the Context names")
}

func (f *callFlags) addOthersTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.others, "other-target", nil, "NAME=FILE: another Target that the item names, "+
		"and the kubeconfig of its cluster, as for --target; may be given several times")
}

// Where an item says nothing about itself.
const (
	localNamespace = "default"
	localUID       = types.UID("00000000-0000-4000-8000-000000000001")
	localTarget    = "target"
)

// localCall is what a plugin is called with for the item of a file.
type localCall struct {
	plugin.Call

	// others are the Targets that the item can name beside its own, by their names.
	others map[string]*v1alpha1.ResolvedTarget
	// secrets are those that the plugin may ask for, and that the Context names.
	secrets fileSecrets
}

// read reads the item of a file, and what the flags say it is called with.
func (f *callFlags) read(ctx context.Context, path string) (_ *localCall, err error) {
	call := &localCall{}
	if call.DeployItem, err = readItem(path, nil); err != nil {
		return nil, err
	}
	complete(call.DeployItem, localNamespace)
	if call.Target, err = f.targetOf(call.DeployItem); err != nil {
		return nil, err
	}
	if call.others, err = f.otherTargets(call.DeployItem.Namespace); err != nil {
		return nil, err
	}
	if call.Context, err = f.readContext(call.DeployItem.Namespace); err != nil {
		return nil, err
	}
	if call.secrets, err = f.readSecrets(); err != nil {
		return nil, err
	}
	if call.Credentials, err = lscontext.Credentials(ctx, call.secrets, call.Context); err != nil {
		return nil, err
	}
	configMap, err := f.readConfigMap()
	if err != nil {
		return nil, err
	}
	call.OCMConfig, err = lscontext.OCMConfig(ctx, configMap, call.Context)
	return call, err
}

// readItem reads the DeployItem of a file, or of standard input for "-".
func readItem(path string, stdin io.Reader) (*v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	if err := readObject(path, stdin, v1alpha1.DeployItemGVK, item); err != nil {
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
	item.Namespace = cmp.Or(item.Namespace, namespace)
	item.UID = cmp.Or(item.UID, localUID)
	item.Generation = cmp.Or(item.Generation, 1)
}

// readObject reads the one object of a YAML file, strictly; that of standard input for "-".
func readObject(path string, stdin io.Reader, kind schema.GroupVersionKind, into client.Object) error {
	read := func() ([]byte, error) { return os.ReadFile(path) }
	if path == "-" && stdin != nil {
		path, read = "standard input", func() ([]byte, error) { return io.ReadAll(stdin) }
	}
	text, err := read()
	if err == nil {
		text, err = onlyDocument(text)
	}
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if found := into.GetObjectKind().GroupVersionKind(); found != kind {
		return fmt.Errorf("read %s: expected a %s of %s, but found a %q of %q",
			path, kind.Kind, kind.GroupVersion(), found.Kind, found.GroupVersion())
	}
	return nil
}

var errSeveral = errors.New("expected one object, but found several")

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
		switch err := yaml.Unmarshal(document, &content); {
		case err == nil && content == nil: // such as a comment
		case only != nil:
			return nil, errSeveral
		default:
			only = document
		}
	}
}

// readContext reads the Context.
func (f *callFlags) readContext(namespace string) (*v1alpha1.Context, error) {
	out := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace}}
	if f.context == "" {
		return out, nil
	}
	return out, readObject(f.context, nil, v1alpha1.GroupVersion.WithKind("Context"), out)
}

// targetOf makes the Target of an item; nil for an item without one.
func (f *callFlags) targetOf(item *v1alpha1.DeployItem) (*v1alpha1.ResolvedTarget, error) {
	reference := item.Spec.Target
	switch {
	case f.target == "" && reference == nil:
		return nil, nil //nolint:nilnil // no target is an ordinary case and no error
	case f.target == "":
		return nil, fmt.Errorf("item %s: spec.target names the Target %q; give the kubeconfig of its cluster with --target",
			item.Name, reference.Name)
	case reference == nil:
		reference = &v1alpha1.ObjectReference{Name: localTarget}
	}
	resolved, err := clusterTarget(item.Namespace, reference.Name, f.target)
	if err != nil {
		return nil, fmt.Errorf("--target: %w", err)
	}
	return resolved, nil
}

// otherTargets makes the Targets that an item can name beside its own, by their names.
func (f *callFlags) otherTargets(namespace string) (map[string]*v1alpha1.ResolvedTarget, error) {
	targets := map[string]*v1alpha1.ResolvedTarget{}
	for _, other := range f.others {
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

// inlineKubeconfig is the current context of a kubeconfig with everything inside, as a plugin gets it: one that is
// confined can read no files of others.
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
			return nil, fmt.Errorf("user %q of %s: a command or provider fetches its credentials, which no Target may have; "+
				"use a kubeconfig with a certificate or a token", name, path)
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

// fileSecrets are the Secrets of files, which count as those of the Context's namespace.
type fileSecrets map[string]*corev1.Secret

var _ lscontext.SecretReader = fileSecrets{}

// Secret implements lscontext.SecretReader.
func (s fileSecrets) Secret(_ context.Context, name types.NamespacedName, _ bool) (*corev1.Secret, error) {
	if secret, ok := s[name.Name]; ok {
		return secret, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
}

// fileConfigMap is the ConfigMap of a file, which counts as one of the Context's namespace; nil for none.
type fileConfigMap struct{ object *corev1.ConfigMap }

var _ lscontext.ConfigMapReader = fileConfigMap{}

// ConfigMap implements lscontext.ConfigMapReader.
func (c fileConfigMap) ConfigMap(_ context.Context, name types.NamespacedName, _ bool) (*corev1.ConfigMap, error) {
	if c.object == nil || c.object.Name != name.Name {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name.Name)
	}
	return c.object, nil
}

// readConfigMap reads the ConfigMap.
func (f *callFlags) readConfigMap() (fileConfigMap, error) {
	if f.configMap == "" {
		return fileConfigMap{}, nil
	}
	configMap := &corev1.ConfigMap{}
	if err := readObject(f.configMap, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"), configMap); err != nil {
		return fileConfigMap{}, fmt.Errorf("--config-map: %w", err)
	}
	return fileConfigMap{configMap}, nil
}

// readSecrets reads the Secrets of files. Its errors hold nothing of what is in them.
func (f *callFlags) readSecrets() (fileSecrets, error) {
	secrets := fileSecrets{}
	for _, path := range f.secrets {
		secret := &corev1.Secret{}
		err := readObject(path, nil, corev1.SchemeGroupVersion.WithKind("Secret"), secret)
		switch file := (*fs.PathError)(nil); {
		case errors.As(err, &file) || errors.Is(err, errSeveral):
			return nil, fmt.Errorf("--secret: %w", err)
		case err != nil:
			return nil, fmt.Errorf(`--secret: read %s: expected a Secret of v1, `+
				`as "kubectl create secret docker-registry --dry-run=client -o yaml" writes it`, path)
		case secret.Name == "":
			return nil, fmt.Errorf("--secret: read %s: metadata.name is missing", path)
		case secrets[secret.Name] != nil:
			return nil, fmt.Errorf("--secret: read %s: the Secret %q is there twice", path, secret.Name)
		case secret.Data == nil:
			secret.Data = map[string][]byte{}
		}
		for key, value := range secret.StringData {
			secret.Data[key] = []byte(value)
		}
		secrets[secret.Name] = secret
	}
	return secrets, nil
}

// registries are the credentials for registries in the Secrets, by their names, as an item of the namespace can name
// them.
func (s fileSecrets) registries(ctx context.Context, namespace string) (map[string]*sdk.RegistryCredentials, error) {
	found := make(map[string]*sdk.RegistryCredentials, len(s))
	for name := range s {
		credentials, err := lscontext.NamedCredentials(ctx, s, namespace, types.NamespacedName{Name: name})
		if err != nil {
			return nil, err
		}
		found[name] = credentials
	}
	return found, nil
}
