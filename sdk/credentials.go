package sdk

import (
	"fmt"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// Credentials are those that the Context of a deploy item has for registries and chart repositories, resolved by the host. They are for
// the call that they come with, and for the servers that they are meant for; they must not be logged or kept. Printing a request with
// package fmt or log/slog, or as JSON, shows none of them.
type Credentials struct {
	// Registries has one entry for each of the Context's registryPullSecrets, in their order. A host bounds how many it reads: an entry
	// with a Problem and without a Secret stands for the rest.
	Registries []RegistryCredentials
	// ChartRepositories has one entry for each of auths in the Context's configuration helmChartRepoCredentials, in their order and with
	// the same bound. A configuration that cannot be read at all is one entry with a Problem.
	ChartRepositories []ChartRepositoryCredentials
}

// RegistryCredentials are those of one Secret.
type RegistryCredentials struct {
	// Secret is its name, for messages.
	Secret string
	// DockerConfig is Docker's configuration, JSON {"auths": …}, without helpers; empty if Problem is set.
	DockerConfig []byte `json:"-"`
	// Problem says why the credentials cannot be used, for a user; empty if they can. A deployer that gets by without them passes over it.
	Problem string
}

// ChartRepositoryCredentials are those for one chart repository.
type ChartRepositoryCredentials struct {
	// URL of the repository, as the Context has it; empty if it cannot be read.
	URL string
	// CAData are certificates of authorities in PEM that the certificate of the repository may be from; empty for those of the system.
	CAData []byte
	// AuthHeader is the value of the header Authorization; empty for none.
	AuthHeader string `json:"-"`
	// Problem says why the credentials cannot be used, for a user; empty if they can. CAData and AuthHeader are empty beside it.
	Problem string
}

var (
	_ fmt.Formatter = Credentials{}
	_ fmt.Formatter = RegistryCredentials{}
	_ fmt.Formatter = ChartRepositoryCredentials{}
)

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
	_, _ = fmt.Fprintf(f, "{URL:%q CAData:(%d bytes) AuthHeader:(%d bytes) Problem:%q}", c.URL, len(c.CAData), len(c.AuthHeader), c.Problem)
}

// ContextCredentials has the host hand over Request.Credentials with each call. Without it a plugin does not get them.
func ContextCredentials() Option {
	return func(o *options) { o.contextCredentials = true }
}

// credentialsFromWire keeps apart that the host knows no credentials (nil) and that the Context names none (empty).
func credentialsFromWire(in *deployerv1.Credentials) *Credentials {
	if in == nil {
		return nil
	}
	out := &Credentials{}
	for _, r := range in.GetRegistries() {
		out.Registries = append(out.Registries, registryFromWire(r))
	}
	for _, r := range in.GetChartRepositories() {
		out.ChartRepositories = append(out.ChartRepositories, ChartRepositoryCredentials{
			URL: r.GetUrl(), CAData: r.GetCaData(), AuthHeader: r.GetAuthHeader(), Problem: r.GetError(),
		})
	}
	return out
}

func registryFromWire(in *deployerv1.RegistryCredentials) RegistryCredentials {
	return RegistryCredentials{Secret: in.GetSecret(), DockerConfig: in.GetDockerConfig(), Problem: in.GetError()}
}

// operationResolveCredentials is what the host calls it, too.
const operationResolveCredentials = "ResolveRegistryCredentials"

// resolvedCredentialsFromWire reads the host's answer to a question for the credentials of a Secret.
func resolvedCredentialsFromWire(name string, in *deployerv1.ResolvedRegistryCredentials) (*RegistryCredentials, error) {
	if in.GetError() != nil {
		return nil, errorFromWire(operationResolveCredentials, fmt.Sprintf("Secret %q cannot be read; the host does not say why", name), in.GetError())
	}
	if in.GetCredentials() == nil {
		return nil, internalProblem(fmt.Errorf("resolve Secret %q: the host has answered with neither credentials nor an error", name))
	}
	out := registryFromWire(in.GetCredentials())
	return &out, nil
}
