package deployer_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	manifestconfig "github.com/pergola-deploy/pergola/plugins/manifest/internal/config"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/deployer"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/configtest"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

var (
	configMaps, secrets     = plugintest.ConfigMaps, plugintest.Secrets
	namespaces, roles, crds = plugintest.Namespaces, plugintest.ClusterRoles, plugintest.CRDs
)

// world is what one test plays in: a host with a manifest deployer.
type world struct{ *plugintest.Host }

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldBy(t, direct)
}

func direct(next http.RoundTripper) http.RoundTripper { return next }

// newWorldBy has the requests that get through to the API server go by way of a round tripper.
func newWorldBy(t *testing.T, by func(http.RoundTripper) http.RoundTripper) *world {
	t.Helper()
	return &world{plugintest.NewHost(t, hostOptions(by))}
}

// hostOptions are those of a host with a manifest deployer.
func hostOptions(by func(http.RoundTripper) http.RoundTripper) plugintest.HostOptions {
	return plugintest.HostOptions{
		APIVersion: "manifest.pergola.dev/v1alpha1", Kind: "ManifestConfiguration",
		Start: func(w *plugintest.World) *sdktest.Plugin {
			d := deployer.New("pergola-manifest/test", target.WrapTransport(func(next http.RoundTripper) http.RoundTripper {
				return w.Requests.Wrap(by(next))
			}))
			return sdktest.New(w.TB, d,
				sdk.Name("manifest"), sdk.Version("test"), sdk.Types(v1alpha2.Type), sdk.LatePickUp())
		},
	}
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world { return &world{w.In(t)} }

// published is the schema of provider configurations.
var published = configtest.NewSchema(manifestconfig.Schema)

// item returns a deploy item with the configuration.
func (w *world) item(config object) *landscaper.DeployItem {
	return w.Item(v1alpha2.Type, "item", config)
}

// mustSucceed calls the deployer until the job is done.
func (w *world) mustSucceed(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := w.MustSucceed(item)
	if err := published.Validate(w.TB, item.Spec.Config.Raw); err != nil {
		w.Errorf("the published schema refuses a configuration that is good: %v", err)
	}
	return result
}

// mustDelete calls the deployer until the item is deleted. Nothing may be managed then.
func (w *world) mustDelete(item *landscaper.DeployItem) *sdktest.Result {
	w.Helper()
	result := w.MustDelete(item)
	if left := w.managed(item); len(left) > 0 {
		w.Errorf("expected nothing to be managed any more, but found %v", left)
	}
	return result
}

// managed returns the objects in the provider status as "Kind name".
func (w *world) managed(item *landscaper.DeployItem) []string {
	w.Helper()
	var names []string
	if status := item.Status.ProviderStatus; status != nil {
		for _, m := range w.Managed(status.Raw) {
			names = append(names, m.Kind+" "+m.Name)
		}
	}
	return names
}

// The builders of what is in a configuration.

type object = map[string]any

func config(manifests ...object) object {
	entries := make([]object, 0, len(manifests))
	for _, m := range manifests {
		entries = append(entries, object{"policy": "manage", "manifest": m})
	}
	return configOf(entries...)
}

// configOf returns a configuration with the entries.
func configOf(entries ...object) object {
	list := make([]any, 0, len(entries))
	for _, e := range entries {
		list = append(list, e)
	}
	return object{
		"apiVersion": v1alpha2.GroupVersion.String(), "kind": v1alpha2.ProviderConfigurationKind, "manifests": list,
	}
}

// entry is an entry of the manifests: an object, and how to deal with it.
func entry(manifest, settings object) object { return with(settings, "manifest", manifest) }

// clusterRole is a cluster-scoped object, whose name is that of the namespace.
func (w *world) clusterRole() object {
	w.DeleteAfter(roles, w.Namespace)
	return object{
		"apiVersion": roles.GroupVersion().String(), "kind": "ClusterRole", "metadata": object{"name": w.Namespace},
	}
}

// group is the API group of the custom resources in the world; no other one has it.
func (w *world) group() string { return w.Namespace + ".example.org" }

// crd defines a kind of the group.
func (w *world) crd(kind string) object {
	definition, _ := w.CRD(kind)
	return definition
}

// custom is an object of a kind of the group.
func (w *world) custom(kind, name string) object {
	return object{
		"apiVersion": w.group() + "/v1", "kind": kind,
		"metadata": object{"name": name, "namespace": w.Namespace},
		"spec":     object{"size": 3},
	}
}

// with returns a copy of the configuration with another field.
func with(config object, name string, value any) object {
	out := object{}
	maps.Copy(out, config)
	out[name] = value
	return out
}

func mustParse(t testing.TB, document []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(document, into); err != nil {
		t.Fatal(err)
	}
}
