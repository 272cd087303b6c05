package sdk

import (
	"encoding/json"
	"fmt"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Target is where a deploy item goes to. The host has resolved it and enforced its policy: the content holds nothing
// that runs commands, reads files or impersonates somebody.
type Target struct {
	// Name of the Target object, which lives in the namespace of the deploy item.
	Name string
	// Type tells what the content looks like.
	Type v1alpha1.TargetType
	// Labels and Annotations of the Target object.
	Labels, Annotations map[string]string
	// Content is the target's content, for most types JSON or YAML. It holds credentials: it belongs into no log and no
	// error. Printing a Target or a request with package fmt or log/slog, or as JSON, does not show it.
	Content []byte `json:"-"`
}

// Credentials are those that the Context of a deploy item has for registries and chart repositories, resolved by the
// host. They are for the call that they come with, and for the servers that they are meant for; they must not be
// logged or kept. Printing a request with package fmt or log/slog, or as JSON, shows none of them.
type Credentials struct {
	// Registries has one entry for each of the Context's registryPullSecrets, in their order. A host bounds how many
	// it reads: an entry with a Problem and without a Secret stands for the rest.
	Registries []RegistryCredentials
	// ChartRepositories has one entry for each of auths in the Context's configuration helmChartRepoCredentials, in
	// their order and with the same bound. A configuration that cannot be read at all is one entry with a Problem.
	ChartRepositories []ChartRepositoryCredentials
}

// RegistryCredentials are those of one Secret.
type RegistryCredentials struct {
	// Secret is its name, for messages.
	Secret string
	// DockerConfig is Docker's configuration, JSON {"auths": …}, without helpers; empty if Problem is set.
	DockerConfig []byte `json:"-"`
	// Problem says why the credentials cannot be used, for a user; empty if they can. A deployer that does not need
	// them ignores it.
	Problem string
}

// ChartRepositoryCredentials are those for one chart repository.
type ChartRepositoryCredentials struct {
	// URL of the repository, as the Context has it; empty if it cannot be read.
	URL string
	// CAData are certificates of authorities in PEM that the certificate of the repository may be from; empty for
	// those of the system.
	CAData []byte
	// AuthHeader is the value of the header Authorization; empty for none.
	AuthHeader string `json:"-"`
	// Problem says why the credentials cannot be used, for a user; empty if they can. CAData and AuthHeader are empty
	// then.
	Problem string
}

// OCMConfig is the configuration for the component model that the Context of a deploy item names.
type OCMConfig struct {
	// ConfigMap is its name, for messages.
	ConfigMap string
	// Content is what the key ".ocmconfig" of the ConfigMap has, as it is. It may hold credentials, although they do not
	// belong there: printing a request with package fmt or log/slog, or as JSON, does not show it.
	Content []byte `json:"-"`
	// Problem says why the ConfigMap cannot be used, for a user; empty if it can. Content is empty then. A deployer that
	// does not need it ignores it.
	Problem string
}

// HostCluster is the access to the cluster that the host runs in, for a deployer that runs something there, such as
// Pods. It is that of a ServiceAccount which the operator has granted to the plugin in the HostConfiguration; the
// rights of the host itself are never handed over.
type HostCluster struct {
	// Kubeconfig holds a token, which the host replaces long before it ends: a deployer takes the kubeconfig of each
	// request anew. It is text that is equal as long as the token is the same. It belongs into no log and no error.
	Kubeconfig []byte `json:"-"`
	// Namespace of the ServiceAccount.
	Namespace string
	// Installation tells the deploy items of this host's cluster from those of others that use the same host cluster:
	// the UID of the namespace kube-system of the cluster that the deploy items are in. It belongs on what a
	// Collector creates.
	Installation string
}

var (
	_ fmt.Formatter = Target{}
	_ fmt.Formatter = Credentials{}
	_ fmt.Formatter = RegistryCredentials{}
	_ fmt.Formatter = ChartRepositoryCredentials{}
	_ fmt.Formatter = OCMConfig{}
	_ fmt.Formatter = HostCluster{}
)

// Format prints what is no secret, whatever the verb.
func (t Target) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Name:%q Type:%q Labels:%q Content:(%d bytes)}", t.Name, t.Type, t.Labels, len(t.Content))
}

// Format prints what is no secret, whatever the verb.
func (c Credentials) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Registries:%v ChartRepositories:%v}", c.Registries, c.ChartRepositories)
}

// Format prints what is no secret, whatever the verb.
func (c RegistryCredentials) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Secret:%q DockerConfig:(%d bytes) Problem:%q}", c.Secret, len(c.DockerConfig), c.Problem)
}

// Format prints what is no secret, whatever the verb.
func (c ChartRepositoryCredentials) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{URL:%q CAData:(%d bytes) AuthHeader:(%d bytes) Problem:%q}",
		c.URL, len(c.CAData), len(c.AuthHeader), c.Problem)
}

// Format prints what is no secret, whatever the verb.
func (c OCMConfig) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{ConfigMap:%q Content:(%d bytes) Problem:%q}", c.ConfigMap, len(c.Content), c.Problem)
}

// Format prints what is no secret, whatever the verb.
func (h HostCluster) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Kubeconfig:(%d bytes) Namespace:%q Installation:%q}",
		len(h.Kubeconfig), h.Namespace, h.Installation)
}

// Kubeconfig returns the kubeconfig of a target that is a Kubernetes cluster. The error is an *Error with
// ReasonTargetMissing, of a nil Target, or ReasonTargetInvalid; it can be returned as it is.
func (t *Target) Kubeconfig() ([]byte, error) {
	if t == nil {
		return nil, ConfigurationError(ReasonTargetMissing,
			"spec.target: this deployer needs a Target of type %s", v1alpha1.KubernetesClusterTargetType)
	}
	var content struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := json.Unmarshal(t.Content, &content); err != nil || content.Kubeconfig == "" {
		return nil, ConfigurationError(ReasonTargetInvalid, "Target %q of type %q holds no kubeconfig", t.Name, t.Type)
	}
	return []byte(content.Kubeconfig), nil
}
