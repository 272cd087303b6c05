package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/proto"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

// minSecret is how long a text has to be that nobody says by chance.
const minSecret = 8

// bait are credentials for servers that there are not. They come with calls that have none of their own, so that it is seen who says them.
func bait() *sdk.Credentials {
	return &sdk.Credentials{
		Registries: []sdk.RegistryCredentials{{
			Secret:       "conformance",
			DockerConfig: []byte(`{"auths":{"registry.conformance.invalid":{"username":"conformance","password":"bait-0f6e7a1b","auth":"Y29uZm9ybWFuY2U6YmFpdC0wZjZlN2ExYg=="}}}`),
		}},
		ChartRepositories: []sdk.ChartRepositoryCredentials{{URL: "https://charts.conformance.invalid", AuthHeader: "Bearer bait-c5d24e98"}},
	}
}

// unusable are credentials none of which can be used.
func unusable() *sdk.Credentials {
	const problem = "the rules are being checked"
	return &sdk.Credentials{
		Registries:        []sdk.RegistryCredentials{{Secret: "conformance", Problem: problem}, {Problem: problem}},
		ChartRepositories: []sdk.ChartRepositoryCredentials{{Problem: problem}},
	}
}

// checkContextCredentials sees whether calls end as usual, whichever credentials come with them. What is said in them, and in all others, is
// looked through as it comes.
func (e *examination) checkContextCredentials(ctx context.Context) {
	e.pass(RuleContextCredentials)
	for _, given := range []struct {
		name        string
		credentials *sdk.Credentials
		fromThePast bool
	}{
		{name: "credentials", credentials: bait()},
		{name: "credentials that cannot be used", credentials: unusable()},
		{name: "no credentials", credentials: &sdk.Credentials{}},
		{name: "a host that knows no credentials", fromThePast: true},
	} {
		call := e.newProbe(e.firstType(), "context-credentials")
		call.Credentials, call.fromThePast = given.credentials, given.fromThePast
		e.expectUsual(RuleContextCredentials, given.name, e.probe(ctx, given.name, call))
	}
}

// asHost returns the call as the host makes it to this plugin.
func (e *examination) asHost(call Call) Call {
	call.separate = call.separate || e.separate
	switch {
	case !e.info.GetCapabilities().GetContextCredentials() || call.fromThePast:
		call.Credentials = nil
	case call.Credentials == nil:
		call.Credentials = bait()
	}
	if !e.info.GetCapabilities().GetHostCluster() || call.fromThePast {
		call.HostCluster = nil
	}
	return call
}

// checkKept sees whether a message holds any of the secrets that came with the call. what they are is said in the plural.
func (o *observations) checkKept(rule Rule, what string, secrets [][]byte, m *deployerv1.PluginMessage) {
	if len(secrets) == 0 {
		return
	}
	text, err := proto.Marshal(m)
	if err != nil {
		o.breaks(rule, "a message that cannot be written again: %v", err)
		return
	}
	if slices.ContainsFunc(secrets, func(secret []byte) bool { return bytes.Contains(text, secret) }) {
		o.breaks(rule, "%s that came with the call are in a message: %T", what, m.GetContent())
	}
}

// secretsOf are the parts of credentials that nobody must say.
func secretsOf(credentials *sdk.Credentials) [][]byte {
	if credentials == nil {
		return nil
	}
	var secrets [][]byte
	add := func(secret string) {
		if len(secret) >= minSecret {
			secrets = append(secrets, []byte(secret))
		}
	}
	for _, r := range credentials.Registries {
		var config struct {
			Auths map[string]struct{ Password, Auth, IdentityToken, RegistryToken string }
		}
		if json.Unmarshal(r.DockerConfig, &config) != nil {
			continue // what cannot be read is of no use, or there is none
		}
		for _, auth := range config.Auths {
			for _, secret := range []string{auth.Password, auth.Auth, auth.IdentityToken, auth.RegistryToken} {
				add(secret)
			}
		}
	}
	for _, r := range credentials.ChartRepositories {
		add(r.AuthHeader)
	}
	return secrets
}

func credentialsToWire(in *sdk.Credentials) *deployerv1.Credentials {
	if in == nil {
		return nil
	}
	out := &deployerv1.Credentials{}
	for _, r := range in.Registries {
		out.Registries = append(out.Registries, registryToWire(r))
	}
	for _, r := range in.ChartRepositories {
		out.ChartRepositories = append(out.ChartRepositories, &deployerv1.ChartRepositoryCredentials{
			Url: r.URL, CaData: r.CAData, AuthHeader: r.AuthHeader, Error: r.Problem,
		})
	}
	return out
}

func registryToWire(in sdk.RegistryCredentials) *deployerv1.RegistryCredentials {
	return &deployerv1.RegistryCredentials{Secret: in.Secret, DockerConfig: in.DockerConfig, Error: in.Problem}
}
