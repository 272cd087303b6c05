package chartserver

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	helmregistry "helm.sh/helm/v3/pkg/registry"

	"github.com/pergola-deploy/pergola/test/charts"
)

const (
	user     = "anna"
	password = "open-sesame"
)

func TestHelmPullsFromRegistry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		reason string
		opts   Options
		// Credentials that the client has, and whether they will do.
		user, password string
		refused        bool
	}{
		{name: "public", reason: "without authentication nobody is asked", opts: Options{}},
		{name: "plain HTTP", reason: "without TLS as well", opts: Options{PlainHTTP: true}},
		{name: "basic", reason: "user and password are right", opts: Options{Auth: Basic}, user: user, password: password},
		{name: "basic over plain HTTP", reason: "as well", opts: Options{Auth: Basic, PlainHTTP: true}, user: user, password: password},
		{name: "basic without", reason: "nobody is refused", opts: Options{Auth: Basic}, refused: true},
		{name: "basic wrong", reason: "a wrong password is refused", opts: Options{Auth: Basic}, user: user, password: "wrong", refused: true},
		{name: "token", reason: "the service gives a token for user and password", opts: Options{Auth: Bearer}, user: user, password: password},
		{
			name: "token elsewhere", reason: "the service may be on another host",
			opts: Options{Auth: Bearer, TokensElsewhere: true}, user: user, password: password,
		},
		{name: "token without", reason: "nobody gets a token", opts: Options{Auth: Bearer}, refused: true},
		{name: "token wrong", reason: "nor does who has a wrong password", opts: Options{Auth: Bearer}, user: user, password: "wrong", refused: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.opts.Auth != Anybody {
				tt.opts.User, tt.opts.Password = user, password
			}
			registry := StartRegistry(t, tt.opts)
			archive := charts.Pack("plain")
			digest, err := registry.PushWith("charts/plain", "1.0.0", archive, PushOptions{Provenance: []byte("signed")})
			if err != nil {
				t.Fatal(err)
			}
			client := helmClient(t, registry, tt.user, tt.password)
			result, err := client.Pull(registry.Ref("charts/plain", "1.0.0"), helmregistry.PullOptWithProv(true))
			if tt.refused {
				if err == nil {
					t.Fatalf("%s, but Helm has got the chart", tt.reason)
				}
				if n := len(answered(registry.Requests(Manifest, Blob), http.StatusOK)); n != 0 {
					t.Errorf("%s, but %d requests were answered", tt.reason, n)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", tt.reason, err)
			}
			if result.Manifest.Digest != digest {
				t.Errorf("Helm has got the manifest %s, want %s, which Push has returned", result.Manifest.Digest, digest)
			}
			if !bytes.Equal(result.Chart.Data, archive) {
				t.Error("Helm has got other bytes than were pushed")
			}
			if result.Chart.Meta.Name != "plain" || result.Chart.Meta.Version != "1.0.0" || result.Chart.Meta.AppVersion != "1.0" {
				t.Errorf("Helm has read %+v from the configuration", result.Chart.Meta)
			}
			if string(result.Prov.Data) != "signed" {
				t.Errorf("Helm has got the provenance %q", result.Prov.Data)
			}
			byDigest, err := client.Pull(registry.Ref("charts/plain", digest))
			if err != nil || !bytes.Equal(byDigest.Chart.Data, archive) {
				t.Errorf("pull by digest: %v", err)
			}
		})
	}
}

// helmClient is Helm's client of a registry, with the credentials that are in a docker configuration; without a user there are none.
func helmClient(t *testing.T, registry *Registry, user, password string) *helmregistry.Client {
	t.Helper()
	config := []byte("{}")
	if user != "" {
		config = DockerConfig(registry.Host(), user, password)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	write(t, file, config)
	opts := []helmregistry.ClientOption{
		helmregistry.ClientOptHTTPClient(registry.Client()),
		helmregistry.ClientOptCredentialsFile(file),
		helmregistry.ClientOptWriter(io.Discard),
	}
	if registry.CA() == nil {
		opts = append(opts, helmregistry.ClientOptPlainHTTP())
	}
	client, err := helmregistry.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestHelmPushesToRegistry(t *testing.T) {
	t.Parallel()
	for _, auth := range []Auth{Basic, Bearer} {
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			registry := StartRegistry(t, Options{Auth: auth, User: user, Password: password})
			client := helmClient(t, registry, user, password)
			archive := charts.Pack("plain")
			result, err := client.Push(archive, registry.Ref("charts/plain", "1.0.0"))
			if err != nil {
				t.Fatal(err)
			}
			pulled, err := client.Pull(registry.Ref("charts/plain", result.Manifest.Digest))
			if err != nil || !bytes.Equal(pulled.Chart.Data, archive) {
				t.Errorf("pull what Helm has pushed: %v", err)
			}
		})
	}
}

func TestPushIsLikeHelms(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{})
	archive := charts.Pack("plain")
	if _, err := registry.Push("charts/plain", "1.0.0", archive); err != nil {
		t.Fatal(err)
	}
	client := helmClient(t, registry, "", "")
	ours, err := client.Pull(registry.Ref("charts/plain", "1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Push(archive, registry.Ref("helm/plain", "1.0.0"), helmregistry.PushOptStrictMode(false)); err != nil {
		t.Fatal(err)
	}
	helms, err := client.Pull(registry.Ref("helm/plain", "1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(manifestOf(t, helms.Manifest.Data), manifestOf(t, ours.Manifest.Data)); diff != "" {
		t.Errorf("the manifest differs from Helm's (-Helm's +ours):\n%s", diff)
	}
}

// manifestOf is a manifest without what may differ: annotations that Helm takes from elsewhere, such as the time, and the configuration, which
// is written in another order.
func manifestOf(t *testing.T, content []byte) map[string]any {
	t.Helper()
	manifest := decode(t, content)
	delete(manifest, "annotations")
	config := manifest["config"].(map[string]any)
	delete(config, "digest")
	delete(config, "size")
	delete(manifest, "mediaType") // may be left out, which Helm does
	return manifest
}

func TestTagsMoveAndDigestsStay(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{})
	old, err := registry.Push("charts/plain", "stable", charts.Pack("plain"))
	if err != nil {
		t.Fatal(err)
	}
	next, err := registry.Push("charts/plain", "stable", charts.Pack("plain", charts.Version("2.0.0")))
	if err != nil {
		t.Fatal(err)
	}
	if old == next {
		t.Fatal("two versions have the same digest")
	}
	if again, err := registry.Push("charts/plain", "other", charts.Pack("plain")); err != nil || again != old {
		t.Errorf("the same chart has the digest %s once and %s then: %v", old, again, err)
	}
	client := helmClient(t, registry, "", "")
	for reference, version := range map[string]string{"stable": "2.0.0", old: "1.0.0", next: "2.0.0"} {
		result, err := client.Pull(registry.Ref("charts/plain", reference))
		if err != nil || result.Chart.Meta.Version != version {
			t.Errorf("pull %s: %v, want version %s", reference, err, version)
		}
	}
	if n := registry.Count(); n == 0 {
		t.Error("the books are empty")
	}
	if err := registry.Untag("charts/plain", "stable"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Pull(registry.Ref("charts/plain", "stable")); err == nil {
		t.Error("the tag still names something")
	}
}

func TestIndexNamesManifests(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{})
	digest, err := registry.Push("charts/plain", "1.0.0", charts.Pack("plain"))
	if err != nil {
		t.Fatal(err)
	}
	index, err := registry.PushIndex("charts/plain", "all", digest)
	if err != nil {
		t.Fatal(err)
	}
	response := get(t, registry.Server, "/v2/charts/plain/manifests/all", "")
	if got := "sha256:" + digestOf(response.body); got != index {
		t.Errorf("the index is %s, want %s", got, index)
	}
	if !strings.Contains(string(response.body), digest) {
		t.Errorf("the index does not name %s", digest)
	}
	if _, err := registry.PushIndex("charts/plain", "none", "sha256:"+strings.Repeat("0", 64)); err == nil {
		t.Error("an index may name what is not there")
	}
}

func TestBlobsElsewhere(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{Auth: Basic, User: user, Password: password})
	store := StartFiles(t, Options{Authority: registry.Authority(), Address: "127.0.0.2"})
	before := charts.Pack("plain")
	after := charts.Pack("plain", charts.Version("2.0.0"))
	if _, err := registry.Push("charts/plain", "1.0.0", before); err != nil {
		t.Fatal(err)
	}
	registry.RedirectBlobs(store)
	if _, err := registry.Push("charts/plain", "2.0.0", after); err != nil {
		t.Fatal(err)
	}
	client := helmClient(t, registry, user, password)
	for version, archive := range map[string][]byte{"1.0.0": before, "2.0.0": after} {
		result, err := client.Pull(registry.Ref("charts/plain", version))
		if err != nil || !bytes.Equal(result.Chart.Data, archive) {
			t.Fatalf("pull %s: %v", version, err)
		}
	}
	if len(registry.WithCredentials()) == 0 {
		t.Error("the books of the registry have no credentials, which were sent there")
	}
	if store.Count(File) == 0 {
		t.Error("nothing has come from the store")
	}
	if wrong := store.WithCredentials(); len(wrong) != 0 {
		t.Errorf("Helm sends credentials to the store, it seems: %v", wrong)
	}
	for _, r := range store.Requests() {
		if !strings.HasPrefix(r.Query, "signature=") {
			t.Errorf("%s has the query %q, want a signature", r, r.Query)
		}
	}
	store.Forget()
	registry.RedirectBlobs(nil)
	if _, err := client.Pull(registry.Ref("charts/plain", "1.0.0")); err != nil {
		t.Fatal(err)
	}
	if store.Count() != 0 {
		t.Error("the registry still sends clients to the store")
	}
}

func TestHostileChartsAreServed(t *testing.T) {
	t.Parallel()
	registry := StartRegistry(t, Options{})
	for _, kind := range []string{"zip-bomb", "no-gzip", "empty", "metadata-deep", "metadata-alias-bomb", "name-traversal", "truncated"} {
		archive := charts.Hostile(kind)
		if _, err := registry.Push("hostile/"+kind, "1.0.0", archive); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		response := get(t, registry.Server, "/v2/hostile/"+kind+"/blobs/sha256:"+digestOf(archive), "")
		if !bytes.Equal(response.body, archive) {
			t.Errorf("%s: the registry serves other bytes than were pushed", kind)
		}
	}
}
