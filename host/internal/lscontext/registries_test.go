package lscontext

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/sdk"
)

func TestDockerConfig(t *testing.T) {
	t.Parallel()
	const (
		auth    = `{"username":"me","password":"` + password + `","auth":"` + password + `"}`
		auths   = `{"r.example.org":` + auth + `}`
		want    = `{"auths":` + auths + `}`
		current = corev1.DockerConfigJsonKey
		old     = corev1.DockerConfigKey
		anew    = `; create a Secret of type kubernetes.io/dockerconfigjson anew (kubectl create secret docker-registry)`
	)
	for name, tc := range map[string]struct {
		reason  string
		secret  *corev1.Secret
		want    string
		problem string
	}{
		"Usual":  {reason: "as kubectl makes it", secret: dockerSecret(want), want: want},
		"Old":    {reason: "as Docker had it once", secret: secretOf(corev1.SecretTypeDockercfg, old, auths), want: want},
		"Opaque": {reason: "the key tells what it is", secret: opaque(current, want), want: want},
		"Both":   {reason: "the newer one counts", secret: opaque(current, want, old, password), want: want},
		"BothOfOld": {"the type says which is meant",
			secretOf(corev1.SecretTypeDockercfg, current, password, old, auths), want, ""},
		"OldInType": {"the type alone is not enough", secretOf(corev1.SecretTypeDockercfg, current, want), want, ""},
		"Beside": {"helpers and other settings are dropped",
			dockerSecret(`{"credHelpers":{"a":"b"},"credsStore":"x","psFormat":"` + password + `","auths":` + auths + `}`), want,
			""},
		"Tokens": {"some registries give tokens",
			dockerSecret(`{"auths":{"a":{"identitytoken":"` + password + `"},"b":{"registrytoken":"<&>"}}}`),
			`{"auths":{"a":{"identitytoken":"` + password + `"},"b":{"registrytoken":"\u003c\u0026\u003e"}}}`, ""},
		"EmptyEntry": {"Docker leaves one where a helper has the rest",
			dockerSecret(`{"auths":{"a":{},"b":null,"r.example.org":` + auth + `}}`), want, ""},
		"Nothing": {reason: "no credentials are no mistake", secret: dockerSecret(`{}`), want: `{"auths":{}}`},
		"NotJSON": {"a parser would quote it", dockerSecret(password), "", `.dockerconfigjson: is no valid JSON` + anew},
		"EntryText": {"the registry is told", dockerSecret(`{"auths":{"r.example.org":"` + password + `"}}`), "",
			`.dockerconfigjson.auths: expected an object, but found a text` + anew},
		"PasswordNumber": {"the number is a secret, too", dockerSecret(`{"auths":{"r.example.org":{"password":31337}}}`), "",
			`.dockerconfigjson.auths.password: expected a text, but found a number; quotes make it a text` + anew},
		"Helper": {
			reason: "no plugin runs it", secret: dockerSecret(`{"auths":{"r.example.org":{}},"credsStore":"desktop"}`),
			problem: `.dockerconfigjson: leaves the credentials to a helper program (credsStore, credHelpers), and the host ` +
				`runs none; put them into auths (kubectl create secret docker-registry)`,
		},
		"OldEntry": {"the registry is told",
			opaque(old, `{"r.example.org":{"auth":{}}}`), "", `.dockercfg.auth: expected a text, but found an object` + anew},
		"OCM": {
			reason: "Landscaper's other form", secret: opaque(otherToolsKey, password),
			problem: `holds the unsupported key .ocmcredentialconfig; put the credentials into .dockerconfigjson ` +
				`(kubectl create secret docker-registry)`,
		},
		"NoKey": {
			reason: "another Secret was named", secret: secretOf(corev1.SecretTypeBasicAuth, "password", password),
			problem: `has the type "kubernetes.io/basic-auth" and not the key .dockerconfigjson; name one of type ` +
				`kubernetes.io/dockerconfigjson (kubectl create secret docker-registry)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := dockerConfig(tc.secret)
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if problem, _ := told(err); problem != tc.problem {
				t.Errorf("%s: expected the problem %q, but found %q", tc.reason, tc.problem, problem)
			}
		})
	}
}

// Each name has an entry of its own, in order, and what is wrong with one spoils no other.
func TestPullSecretsInOrder(t *testing.T) {
	t.Parallel()
	const config = `{"auths":{"a":{"password":"` + password + `"}}}`
	long := strings.Repeat("ü", 129) // cut in the middle of a character, it could not be sent
	reader := &objects{secrets: map[string]*corev1.Secret{"good": dockerSecret(config)}}
	got, err := Credentials(t.Context(), reader, newContext("gone", "good", "", "a/b", "good", long))
	if err != nil {
		t.Fatal(err)
	}
	const where = `Context "shop/default": registryPullSecrets`
	want := []sdk.RegistryCredentials{
		{Secret: "gone", Problem: where + `[0].name: there is no Secret "shop/gone"; create it, or remove the entry`},
		{Secret: "good", DockerConfig: []byte(config)},
		{Problem: where + `[2].name: no Secret can have the name ""; correct it`},
		{Secret: "a/b", Problem: where + `[3].name: no Secret can have the name "a/b"; correct it`},
		{Secret: "good", DockerConfig: []byte(config)},
		{Secret: strings.Repeat("ü", 126) + "…",
			Problem: where + `[5].name: no Secret can have the name "` + strings.Repeat("ü", 126) + `…"; correct it`},
	}
	if diff := cmp.Diff(want, got.Registries); diff != "" {
		t.Errorf("registries (-want +got):\n%s", diff)
	}
	if reader.asked != 3 {
		t.Errorf("expected 3 reads, because what cannot be a name is not looked for; found %d", reader.asked)
	}
}

func TestTooManyPullSecrets(t *testing.T) {
	t.Parallel()
	reader := &objects{secrets: map[string]*corev1.Secret{"pull": dockerSecret(`{}`)}}
	for n, want := range map[int]string{maxEntries: "", maxEntries + 2: `Context "shop/default": registryPullSecrets: ` +
		`has 52 entries, but only the first 50 count; remove some`} {
		got, err := Credentials(t.Context(), reader, newContext(slices.Repeat([]string{"pull"}, n)...))
		if err != nil {
			t.Fatal(err)
		}
		if last := got.Registries[len(got.Registries)-1]; len(got.Registries) != min(n, maxEntries+1) ||
			last.Problem != want || (last.DockerConfig == nil) != (want != "") {
			t.Errorf("expected the problem %q of %d, but found %v", want, n, got.Registries)
		}
	}
}

// What is handed over fits into a message, however large the Secrets are; the ones that fit are there.
func TestTooLargePullSecrets(t *testing.T) {
	t.Parallel()
	large := dockerSecret(`{"auths":{"a":{"password":"` + strings.Repeat("x", 1<<20-100) + `"}}}`)
	small := dockerSecret(`{"auths":{"b":{"auth":"eDp5"}}}`)
	reader := &objects{secrets: map[string]*corev1.Secret{"large": large, "small": small}}
	names := strings.Fields(strings.Repeat("large ", 9) + "small")
	got, err := Credentials(t.Context(), reader, newContext(names...))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for i, r := range got.Registries {
		total += len(r.DockerConfig)
		left := ""
		if i == 8 {
			left = `Context "shop/default": registryPullSecrets[8]: is left out, because the Context names more than 8 MiB of ` +
				`credentials; remove some`
		}
		if r.Problem != left || (r.DockerConfig == nil) != (left != "") {
			t.Errorf("entry %d: expected the problem %q, but found %q and %d bytes", i, left, r.Problem, len(r.DockerConfig))
		}
	}
	if total > maxBytes {
		t.Errorf("expected at most %d bytes, but found %d", maxBytes, total)
	}
}
