package local

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// CallFlags are the flags for the data of calls without a cluster.
type CallFlags struct {
	target, context string
	secrets         []string
	configMap       string
	// otherTargets are pairs NAME=FILE.
	otherTargets []string
}

// AddTo adds the flags, without --other-target.
func (f *CallFlags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "target", "", "kubeconfig of the target cluster. Its current context is used, "+
		"with a certificate, token or password, inline or in files")
	flags.StringVar(&f.context, "context", "", "file with the Context of the items (default: an empty Context)")
	flags.StringArrayVar(&f.secrets, "secret", nil, "file with a Secret of the Context or the item, "+
		"with credentials for registries or chart repositories; may be given several times")
	flags.StringVar(&f.configMap, "config-map", "", "file with the ConfigMap of the Context's ocmConfig")
}

// AddOtherTargetsTo adds --other-target.
func (f *CallFlags) AddOtherTargetsTo(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.otherTargets, "other-target", nil, "NAME=FILE: another Target of the item "+
		"and the kubeconfig of its cluster, as for --target; may be given several times")
}

// The defaults for items without a cluster.
const (
	defaultNamespace = "default"
	defaultUID       = types.UID("00000000-0000-4000-8000-000000000001")
	defaultTarget    = "target"
)

// Call has the data for calls of a plugin without a cluster.
type Call struct {
	plugin.Call

	// otherTargets by name.
	otherTargets map[string]*v1alpha1.ResolvedTarget
	secrets      secretFiles
}

// Read reads the item of a file and the files of the flags.
func (f *CallFlags) Read(ctx context.Context, path string) (_ *Call, err error) {
	call := &Call{}
	if call.DeployItem, err = ReadItem(path, nil); err != nil {
		return nil, err
	}
	Complete(call.DeployItem, defaultNamespace)
	if call.Target, err = f.targetOf(call.DeployItem); err != nil {
		return nil, err
	}
	if call.otherTargets, err = f.readOtherTargets(call.DeployItem.Namespace); err != nil {
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

// Complete sets the fields of an item which an API server would set.
func Complete(item *v1alpha1.DeployItem, namespace string) {
	item.Namespace = cmp.Or(item.Namespace, namespace)
	item.UID = cmp.Or(item.UID, defaultUID)
	item.Generation = cmp.Or(item.Generation, 1)
}

// readContext reads the Context; an empty one without a file.
func (f *CallFlags) readContext(namespace string) (*v1alpha1.Context, error) {
	out := &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace}}
	if f.context == "" {
		return out, nil
	}
	return out, readObject(f.context, nil, v1alpha1.GroupVersion.WithKind("Context"), out)
}

// readConfigMap reads the ConfigMap.
func (f *CallFlags) readConfigMap() (configMapFile, error) {
	if f.configMap == "" {
		return configMapFile{}, nil
	}
	configMap := &corev1.ConfigMap{}
	if err := readObject(f.configMap, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"), configMap); err != nil {
		return configMapFile{}, fmt.Errorf("--config-map: %w", err)
	}
	return configMapFile{configMap}, nil
}

// ResolveTarget returns a Target by its name: one of --other-target, or the Target of the item.
func (c *Call) ResolveTarget(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	if other := c.otherTargets[name]; other != nil {
		return other, nil
	}
	if own := c.Target; own != nil && own.Target.Name == name {
		return own, nil
	}
	return nil, plugin.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "ResolveOtherTarget",
		Reason: contract.ReasonTargetNotFound,
		Message: fmt.Sprintf("Target %q: there is no such Target; give the kubeconfig of its cluster with "+
			"--other-target %[1]s=FILE", name),
	}
}

// ResolveRegistryCredentials returns the credentials in a Secret of --secret.
func (c *Call) ResolveRegistryCredentials(
	ctx context.Context, secret types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	return lscontext.NamedCredentials(ctx, c.secrets, c.DeployItem.Namespace, secret)
}

// Registries returns the credentials in all Secrets, by their names.
func (c *Call) Registries(ctx context.Context) (map[string]*sdk.RegistryCredentials, error) {
	found := make(map[string]*sdk.RegistryCredentials, len(c.secrets))
	for name := range c.secrets {
		credentials, err := c.ResolveRegistryCredentials(ctx, types.NamespacedName{Name: name})
		if err != nil {
			return nil, err
		}
		found[name] = credentials
	}
	return found, nil
}

// ErrorText formats an error of a plugin as a line.
func ErrorText(e plugin.Error) string {
	text := e.Reason + ": " + e.Message
	if e.Operation != "" {
		text = e.Operation + ": " + text
	}
	if len(e.Codes) > 0 {
		text = strings.ReplaceAll(fmt.Sprint(e.Codes), " ", ", ") + " " + text
	}
	return text
}
