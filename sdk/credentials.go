package sdk

import (
	"fmt"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Target is the destination of a deploy item. The host has resolved it and enforced its policy: the content runs no
// commands, reads no files and impersonates no user.
type Target struct {
	// Name of the Target object, in the namespace of the deploy item.
	Name string
	// Type is the form of the content.
	Type v1alpha1.TargetType
	// Labels and Annotations of the Target object.
	Labels, Annotations map[string]string
	// Content is the target's content, for most types JSON or YAML. It holds credentials: it belongs into no log and no
	// error. Printing a Target or a request with package fmt or log/slog, or as JSON, does not show it.
	Content []byte `json:"-"`
}

// Credentials of the Context of a deploy item for registries and chart repositories, resolved by the host. They are for
// one call and for their own servers; they must not be logged or kept. Printing a request with package fmt or log/slog,
// or as JSON, shows none of them.
type Credentials struct {
	// Registries has one entry for each of the Context's registryPullSecrets, in their order. A host bounds their
	// number: an entry with a Problem and without a Secret stands for the rest.
	Registries []RegistryCredentials
	// ChartRepositories has one entry for each of auths in the Context's configuration helmChartRepoCredentials, in
	// their order and with the same bound. An unreadable configuration is one entry with a Problem.
	ChartRepositories []ChartRepositoryCredentials
}

// RegistryCredentials are those of one Secret.
type RegistryCredentials struct {
	// Secret is its name, for messages.
	Secret string
	// DockerConfig is Docker's configuration, JSON {"auths": …}, without helpers; empty if Problem is set.
	DockerConfig []byte `json:"-"`
	// Problem is the reason for the user why the credentials cannot be used; empty if they can. A deployer without a
	// need for them ignores it.
	Problem string
}

// ChartRepositoryCredentials are those for one chart repository.
type ChartRepositoryCredentials struct {
	// URL of the repository, as the Context has it; empty if it cannot be read.
	URL string
	// CAData are the certificates of the repository's authorities in PEM; empty for those of the system.
	CAData []byte
	// AuthHeader is the value of the header Authorization; empty for none.
	AuthHeader string `json:"-"`
	// Problem is the reason for the user why the credentials cannot be used, without CAData and AuthHeader; empty if
	// they can.
	Problem string
}

// OCMConfig is the configuration for the component model in the Context of a deploy item.
type OCMConfig struct {
	// ConfigMap is its name, for messages.
	ConfigMap string
	// Content of the key ".ocmconfig" of the ConfigMap, as it is. It may hold credentials, although they do not belong
	// there: printing a request with package fmt or log/slog, or as JSON, does not show it.
	Content []byte `json:"-"`
	// Problem is the reason for the user why the ConfigMap cannot be used, without a Content; empty if it can. A
	// deployer without a need for it ignores it.
	Problem string
}

// HostCluster is the access to the host's cluster, for a deployer of Pods or other objects there. It belongs to a
// ServiceAccount from the HostConfiguration, granted by the operator; the rights of the host itself are never handed
// over.
type HostCluster struct {
	// Kubeconfig holds a token. The host replaces it long before it ends: a deployer takes the kubeconfig of each
	// request anew. The text is equal as long as the token is the same. It belongs into no log and no error.
	Kubeconfig []byte `json:"-"`
	// Namespace of the ServiceAccount.
	Namespace string
	// Installation tells the deploy items of this host's cluster from those of others with the same host cluster: the
	// UID of the namespace kube-system of the deploy items' cluster. It belongs on the objects of a Collector.
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

// Format hides secrets, with any verb.
func (t Target) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Name:%q Type:%q Labels:%q Content:(%d bytes)}", t.Name, t.Type, t.Labels, len(t.Content))
}

// Format hides secrets, with any verb.
func (c Credentials) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Registries:%v ChartRepositories:%v}", c.Registries, c.ChartRepositories)
}

// Format hides secrets, with any verb.
func (c RegistryCredentials) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Secret:%q DockerConfig:(%d bytes) Problem:%q}", c.Secret, len(c.DockerConfig), c.Problem)
}

// Format hides secrets, with any verb.
func (c ChartRepositoryCredentials) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{URL:%q CAData:(%d bytes) AuthHeader:(%d bytes) Problem:%q}",
		c.URL, len(c.CAData), len(c.AuthHeader), c.Problem)
}

// Format hides secrets, with any verb.
func (c OCMConfig) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{ConfigMap:%q Content:(%d bytes) Problem:%q}", c.ConfigMap, len(c.Content), c.Problem)
}

// Format hides secrets, with any verb.
func (h HostCluster) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{Kubeconfig:(%d bytes) Namespace:%q Installation:%q}",
		len(h.Kubeconfig), h.Namespace, h.Installation)
}
