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
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// CallFlags are the flags for the data of calls without a cluster.
type CallFlags struct {
	target, context string
	secrets         []string
	configMap       string
}

// AddTo adds the flags.
func (f *CallFlags) AddTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.target, "target", "", "file with the Target of the items: a kubeconfig, with its current context; "+
		"or the Targets of the namespace, of any type, and their Secrets as further YAML documents")
	flags.StringVar(&f.context, "context", "", "file with the Context of the items (default: an empty Context)")
	flags.StringArrayVar(&f.secrets, "secret", nil, "file with a Secret of the Context or the item, "+
		"with credentials for registries or chart repositories; may be given several times")
	flags.StringVar(&f.configMap, "config-map", "", "file with the ConfigMap of the Context's ocmConfig")
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

	// Targets of the item's namespace by name; that of the item is one of them.
	Targets map[string]*v1alpha1.ResolvedTarget

	objects  *store
	resolver *target.Resolver
}

// Read reads the item of a file and the files of the flags.
func (f *CallFlags) Read(ctx context.Context, path string) (_ *Call, err error) {
	objects := &store{}
	call := &Call{objects: objects, resolver: target.NewResolver(objects, objects, target.Options{})}
	if call.DeployItem, err = ReadItem(path, nil); err != nil {
		return nil, err
	}
	Complete(call.DeployItem, defaultNamespace)
	if call.Context, err = f.readContext(call.DeployItem.Namespace); err != nil {
		return nil, err
	}
	if err := f.readObjects(objects, call.DeployItem); err != nil {
		return nil, err
	}
	if err := f.resolveTargets(ctx, call); err != nil {
		return nil, err
	}
	all := hostside.Capabilities{ContextCredentials: true, ContextOCMConfig: true}
	return call, call.ReadNamed(ctx, all, call.resolver)
}

// readObjects adds the objects of the item's namespace in the files.
func (f *CallFlags) readObjects(objects *store, item *v1alpha1.DeployItem) error {
	if err := f.readTargets(objects, item); err != nil {
		return err
	}
	if err := f.readSecrets(objects); err != nil {
		return err
	}
	return f.readConfigMap(objects)
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

// readConfigMap adds the ConfigMap to the objects.
func (f *CallFlags) readConfigMap(objects *store) error {
	if f.configMap == "" {
		return nil
	}
	configMap := &corev1.ConfigMap{}
	err := readObject(f.configMap, nil, corev1.SchemeGroupVersion.WithKind("ConfigMap"), configMap)
	if err != nil {
		return fmt.Errorf("--config-map: %w", err)
	}
	return objects.add(configMap)
}

// ResolveTarget returns a Target by its name.
func (c *Call) ResolveTarget(_ context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	if found := c.Targets[name]; found != nil {
		return found, nil
	}
	return nil, plugin.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: joberror.OperationResolveOther,
		Reason:  contract.ReasonTargetNotFound,
		Message: fmt.Sprintf("Target %q: there is no such Target; add it to the file of --target", name),
	}
}

// ResolveRegistryCredentials returns the credentials in a Secret of the files.
func (c *Call) ResolveRegistryCredentials(
	ctx context.Context, secret types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	return lscontext.NamedCredentials(ctx, c.resolver, c.DeployItem.Namespace, secret)
}

// Registries returns the credentials in all Secrets, by their names.
func (c *Call) Registries(ctx context.Context) (map[string]*sdk.RegistryCredentials, error) {
	found := map[string]*sdk.RegistryCredentials{}
	for _, object := range c.objects.objects {
		if _, ok := object.(*corev1.Secret); !ok {
			continue
		}
		credentials, err := c.ResolveRegistryCredentials(ctx, types.NamespacedName{Name: object.GetName()})
		if err != nil {
			return nil, err
		}
		found[object.GetName()] = credentials
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
