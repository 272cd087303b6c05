package lscontext

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk"
)

// An API server that cannot answer now is an error; its answer about the object is a problem.
func TestErrorsOfTheReader(t *testing.T) {
	t.Parallel()
	const (
		root      = `Context "shop/default": `
		forbidden = `the Secret "shop/pull" may not be read; allow "get" for secrets in the namespace "shop"`
	)
	named := types.NamespacedName{Name: "pull"}
	repository := withRepositories(newContext(), `{"auths":[{"url":"https://a","secretRef":{"name":"pull"}}]}`)
	for name, tc := range map[string]struct {
		resolve            func(Reader) (any, error)
		failure, forbidden string
	}{
		"pull secret": {func(r Reader) (any, error) { return Credentials(t.Context(), r, newContext("pull")) },
			`resolve credentials of ` + root + `get Secret "shop/pull": `, root + `registryPullSecrets[0].name: ` + forbidden},
		"chart repository": {func(r Reader) (any, error) { return Credentials(t.Context(), r, repository) },
			`resolve credentials of ` + root + `get Secret "shop/pull": `,
			root + `configurations.helmChartRepoCredentials.auths[0].secretRef.name: ` + forbidden},
		"named": {func(r Reader) (any, error) { return NamedCredentials(t.Context(), r, "shop", named) },
			`read Secret "shop/pull": `, forbidden},
		"configuration": {func(r Reader) (any, error) { return OCMConfig(t.Context(), r, withOCMConfig("places")) },
			`resolve ocmConfig of ` + root + `get ConfigMap "shop/places": `, root + `ocmConfig.name: the ConfigMap ` +
				`"shop/places" may not be read; allow "get" for configmaps in the namespace "shop"`},
	} {
		down := errors.New("connection refused")
		if got, err := tc.resolve(&objects{err: down}); fmt.Sprint(got) != "<nil>" || !errors.Is(err, down) ||
			!strings.HasPrefix(err.Error(), tc.failure) {
			t.Errorf("%s: expected the error with its object, but found %v, %v", name, got, err)
		}
		refusal := apierrors.NewForbidden(corev1.Resource("any"), "any", errors.New("RBAC"))
		got, err := tc.resolve(&objects{err: refusal})
		if err != nil || !strings.Contains(fmt.Sprint(got), fmt.Sprintf("Problem:%q}", tc.forbidden)) {
			t.Errorf("%s: expected %s, but found %v, %v", name, tc.forbidden, got, err)
		}
	}
}

func TestNamedCredentials(t *testing.T) {
	t.Parallel()
	const config = `{"auths":{"r.example.org":{"auth":"` + password + `"}}}`
	for name, tc := range map[string]struct {
		reason string
		ref    types.NamespacedName
		want   sdk.RegistryCredentials
		asked  int
	}{
		"NoNamespace": {"it is the item's",
			types.NamespacedName{Name: "pull"}, sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(config)}, 1},
		"Stale": {"it was just mended",
			types.NamespacedName{Name: "mended"}, sdk.RegistryCredentials{Secret: "mended", DockerConfig: []byte(config)}, 2},
		// Rule (SECURITY.md#authors-of-items): A Secret with credentials is read from the namespace of its item.
		"Elsewhere": {
			"who may write an item here may not read there", types.NamespacedName{Namespace: "vault", Name: "pull"},
			sdk.RegistryCredentials{
				Secret: "pull",
				Problem: `Secret "vault/pull": the host reads Secrets only from the namespace of the deploy item, "shop"; ` +
					`create the Secret there, and refer to it`,
			}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &objects{
				secrets: map[string]*corev1.Secret{"pull": dockerSecret(config), "mended": dockerSecret(config)},
				stale:   map[string]*corev1.Secret{"mended": opaque("a", password)},
			}
			got, err := NamedCredentials(t.Context(), reader, "shop", tc.ref)
			if diff := cmp.Diff(&tc.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", tc.reason, err, diff)
			}
			if reader.asked != tc.asked {
				t.Errorf("%s: expected %d reads, but found %d", tc.reason, tc.asked, reader.asked)
			}
		})
	}
}

// Each entry of a Context has either a problem or can be used, no problem tells a secret, and all can be sent, whatever
// is in Secrets and Contexts.
// Rule (SECURITY.md#secrets): Errors about credentials of a Context hold no secret.
func TestAnyCredentials(t *testing.T) {
	t.Parallel()
	fragments := []string{
		password, `{"auths":{"` + "a" + `":{"password":"` + password + `"}}}`, `{"auths":{"a":` + `"` + password + `"}}`,
		`{"a":{"auth":"` + password + `"}}`,
		"{", "[]", "null", "\xff" + password, "Bearer " + password + "\n", "",
	}
	rapid.Check(t, func(rt *rapid.T) {
		reader := &objects{secrets: map[string]*corev1.Secret{}}
		name := rapid.SampledFrom([]string{"a", "b", "c", "", "../d", "gone"})
		for _, key := range []string{"a", "b", "c"} {
			reader.secrets[key] = secretOf(
				rapid.SampledFrom([]corev1.SecretType{corev1.SecretTypeOpaque, corev1.SecretTypeDockercfg,
					corev1.SecretTypeDockerConfigJson}).Draw(rt, "type"),
				rapid.SampledFrom([]string{corev1.DockerConfigJsonKey, corev1.DockerConfigKey, "authHeader"}).Draw(rt, "key"),
				rapid.SampledFrom(fragments).Draw(rt, "value"),
			)
		}
		names := rapid.SliceOfN(name, 0, 4).Draw(rt, "names")
		text := rapid.SampledFrom(append(fragments, "https://a", "https://me:"+password+"@a"))
		var auths []map[string]any
		for range rapid.IntRange(0, 4).Draw(rt, "repositories") {
			auth := map[string]any{}
			for _, field := range []string{"url", "authHeader", "customCAData"} {
				if rapid.Bool().Draw(rt, field) {
					auth[field] = text.Draw(rt, field)
				}
			}
			if rapid.Bool().Draw(rt, "ref") {
				auth["secretRef"] = map[string]any{"name": name.Draw(rt, "ref"),
					"key": rapid.SampledFrom([]string{"", "authHeader", "typo"}).Draw(rt, "ref key")}
			}
			auths = append(auths, auth)
		}
		got, err := Credentials(t.Context(), reader,
			withRepositories(newContext(names...), marshal(t, map[string]any{"auths": auths})))
		if err != nil {
			rt.Fatal(err)
		}
		if len(got.Registries) != len(names) || len(got.ChartRepositories) != len(auths) {
			rt.Fatalf("expected %d and %d entries, but found %d and %d", len(names), len(auths), len(got.Registries),
				len(got.ChartRepositories))
		}
		for i, r := range got.Registries {
			if r.Secret != names[i] || (r.Problem == "") != json.Valid(r.DockerConfig) || r.Problem != "" &&
				len(r.DockerConfig) > 0 {
				rt.Errorf("entry %d of %q: %v", i, names[i], r)
			}
			checkTold(rt, r.Problem, r.Secret)
		}
		for i, r := range got.ChartRepositories {
			if r.Problem != "" && (r.AuthHeader != "" || len(r.CAData) > 0) || r.Problem == "" && r.URL == "" {
				rt.Errorf("entry %d of %v: %v", i, auths[i], r)
			}
			if !utf8.ValidString(r.AuthHeader) || strings.ContainsAny(r.AuthHeader, "\r\n") {
				rt.Errorf("entry %d cannot be sent: %v", i, r)
			}
			checkTold(rt, r.Problem, r.URL)
		}
	})
}

func checkTold(t *rapid.T, texts ...string) {
	for _, text := range texts {
		if strings.Contains(text, password) || !utf8.ValidString(text) {
			t.Errorf("a text tells a secret, or cannot be sent: %q", text)
		}
	}
}
