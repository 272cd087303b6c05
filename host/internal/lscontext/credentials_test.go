package lscontext

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// What the API server cannot answer now is an error; what it says of the Secret is not.
func TestErrorsOfTheReader(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	for name, err := range map[string]error{
		"Forbidden": apierrors.NewForbidden(corev1.Resource("secrets"), "pull", errors.New("RBAC")), "Refused": down,
	} {
		for field, lsContext := range map[string]*v1alpha1.Context{
			"registryPullSecrets[0]": newContext("pull"),
			"configurations.helmChartRepoCredentials.auths[0].secretRef": withRepositories(newContext(),
				`{"auths":[{"url":"https://a","secretRef":{"name":"pull"}}]}`),
		} {
			got, err := Credentials(t.Context(), &secretMap{errs: map[string]error{"pull": err}}, lsContext)
			if name == "Refused" {
				if !errors.Is(err, down) || got != nil ||
					!strings.HasPrefix(err.Error(), `resolve credentials of Context "shop/default": get Secret "shop/pull": `) {
					t.Errorf("expected the error with its object, but found %v, %v", got, err)
				}
				continue
			}
			want := `Context "shop/default": ` + field + `.name: the Secret "shop/pull" may not be read; ` +
				`allow "get" for secrets in the namespace "shop"`
			if err != nil || len(got.Registries) > 0 && got.Registries[0].Problem != want ||
				len(got.ChartRepositories) > 0 && got.ChartRepositories[0].Problem != want {
				t.Errorf("expected %s, but found %v, %v", want, got, err)
			}
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
		"NoNamespace": {
			"it is the item's", types.NamespacedName{Name: "pull"},
			sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(config)}, 1,
		},
		"Stale": {
			"it was just mended", types.NamespacedName{Name: "mended"},
			sdk.RegistryCredentials{Secret: "mended", DockerConfig: []byte(config)}, 2,
		},
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
			reader := &secretMap{
				byName: map[string]*corev1.Secret{"pull": dockerSecret(config), "mended": dockerSecret(config)},
				stale:  map[string]*corev1.Secret{"mended": opaque("a", password)},
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
	down := errors.New("connection refused")
	reader := &secretMap{errs: map[string]error{"pull": down}}
	if got, err := NamedCredentials(t.Context(), reader, "shop", types.NamespacedName{Name: "pull"}); got != nil ||
		!errors.Is(err, down) || !strings.HasPrefix(err.Error(), `read Secret "shop/pull": `) {
		t.Errorf("expected an error that is worth another try, but found %v, %v", got, err)
	}
}

// Whatever is in Secrets and Contexts: there is an entry for each, which has either a problem or can be used, no
// problem tells a secret, and
// what comes out can be sent.
func TestAnyCredentials(t *testing.T) {
	t.Parallel()
	fragments := []string{
		password, `{"auths":{"` + "a" + `":{"password":"` + password + `"}}}`, `{"auths":{"a":` + `"` + password + `"}}`,
		`{"a":{"auth":"` + password + `"}}`,
		"{", "[]", "null", "\xff" + password, "Bearer " + password + "\n", "",
	}
	rapid.Check(t, func(rt *rapid.T) {
		reader := &secretMap{byName: map[string]*corev1.Secret{}}
		name := rapid.SampledFrom([]string{"a", "b", "c", "", "../d", "gone"})
		for _, key := range []string{"a", "b", "c"} {
			reader.byName[key] = secretOf(
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
