package target

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
)

func TestNamedCredentials(t *testing.T) {
	t.Parallel()
	const config = `{"auths":{"r.example.org":{"auth":"` + password + `"}}}`
	for name, tc := range map[string]struct {
		reason string
		ref    types.NamespacedName
		want   sdk.RegistryCredentials
		asked  int
	}{
		"Found": {
			"of the item's namespace", types.NamespacedName{Namespace: "shop", Name: "pull"},
			sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(config)}, 1,
		},
		"NoNamespace": {
			"it is the item's", types.NamespacedName{Name: "pull"},
			sdk.RegistryCredentials{Secret: "pull", DockerConfig: []byte(config)}, 1,
		},
		"Stale": {
			"it was just mended", types.NamespacedName{Name: "mended"},
			sdk.RegistryCredentials{Secret: "mended", DockerConfig: []byte(config)}, 2,
		},
		"Missing": {
			"it may still come", types.NamespacedName{Name: "gone"},
			sdk.RegistryCredentials{Secret: "gone", Problem: `there is no Secret "shop/gone"; create it, or remove the entry`},
			1,
		},
		"Elsewhere": {
			"who may write an item here may not read there", types.NamespacedName{Namespace: "vault", Name: "pull"},
			sdk.RegistryCredentials{
				Secret: "pull",
				Problem: `Secret "vault/pull": the host reads no Secrets of other namespaces than that of the deploy item, which ` +
					`is "shop"; ` +
					`create the Secret there, and name that one`,
			}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &secretMap{
				byName: map[string]*corev1.Secret{"pull": dockerSecret(config), "mended": dockerSecret(config),
					"opaque": opaque("a", password)},
				stale: map[string]*corev1.Secret{"mended": opaque("a", password)},
			}
			got, err := NamedCredentials(t.Context(), reader, "shop", tc.ref)
			if diff := cmp.Diff(&tc.want, got); diff != "" || err != nil {
				t.Errorf("%s: %v (-want +got):\n%s", tc.reason, err, diff)
			}
			if reader.asked != tc.asked || strings.Contains(got.Problem, password) {
				t.Errorf("%s: expected %d reads, and nothing of the Secret in the problem, but found %d, %q", tc.reason, tc.asked,
					reader.asked, got.Problem)
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
