package watchdog

import (
	"fmt"

	"github.com/pergola-deploy/pergola/sdk"
)

// baits are secrets, too long to be in a message by chance.
var baits = []string{
	"bait-0f6e7a1b", "Y29uZm9ybWFuY2U6YmFpdC0wZjZlN2ExYg==", "Bearer bait-c5d24e98", "bait-7d20b9e6", "bait-91c4f2d3",
	"bait-3b58d0ce", "bait-e17f94a2",
}

// New returns a watchdog with the baits as its secrets.
func New() *Watchdog {
	w := &Watchdog{}
	w.Secrets.Note("", baits...)
	return w
}

// BaitTargets are unusable contents of Targets, by their mistake. A message about them is right, unless it quotes them.
func BaitTargets() map[string][]byte {
	return map[string][]byte{
		"a Target with half a document":  fmt.Appendf(nil, `{"conformance":{"token":%q`, baits[5]),
		"a Target with another document": fmt.Appendf(nil, `{"conformance":{"token":%q}}`, baits[6]),
	}
}

// Bait returns credentials for invented servers, to catch a plugin in repeating them.
func Bait() *sdk.Credentials {
	return &sdk.Credentials{
		Registries: []sdk.RegistryCredentials{{
			Secret: "conformance",
			DockerConfig: fmt.Appendf(nil,
				`{"auths":{"registry.conformance.invalid":{"username":"conformance","password":%q,"auth":%q}}}`,
				baits[0], baits[1]),
		}},
		ChartRepositories: []sdk.ChartRepositoryCredentials{
			{URL: "https://charts.conformance.invalid", AuthHeader: baits[2]},
		},
	}
}

// BaitCluster returns the access to an invented cluster.
func BaitCluster() *sdk.HostCluster {
	return &sdk.HostCluster{
		Kubeconfig: fmt.Appendf(nil,
			`{"apiVersion":"v1","kind":"Config","users":[{"name":"host","user":{"token":%q}}]}`, baits[3]),
		Namespace: "conformance", Installation: "00000000-0000-0000-0002-000000000000",
	}
}

// BaitOCMConfig returns a configuration with credentials, although they do not belong there.
func BaitOCMConfig() *sdk.OCMConfig {
	return &sdk.OCMConfig{ConfigMap: "conformance", Content: fmt.Appendf(nil,
		`{"type":"credentials.config.ocm.software","consumers":[{"identity":{"type":"OCIRegistry",`+
			`"hostname":"registry.conformance.invalid"},"credentials":[{"type":"Credentials","properties":{"password":%q}}]}]}`,
		baits[4])}
}
