package chartsource_test

import (
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/cases"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
)

const (
	shop    = "example.com/shop"
	version = "1.2.3"
)

// shopWith is a version of the shop with the resource chart, which is the chart plain unless it says otherwise.
func shopWith(r components.Resource, form ...components.Version) components.Version {
	v := append(form, components.Version{})[0]
	if r.Name = "chart"; r.Access == nil && r.Content == nil {
		r.Content = plain
	}
	v.Name, v.Version = shop, cmp.Or(v.Version, version)
	v.Resources = append([]components.Resource{r}, v.Resources...)
	return v
}

// inContext is a Context whose components are at a place.
func inContext(t *testing.T, context map[string]any) *v1alpha1.Context {
	t.Helper()
	document, err := json.Marshal(context)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.Context{ContextConfiguration: v1alpha1.ContextConfiguration{
		RepositoryContext: &runtime.RawExtension{Raw: document},
	}}
}

// shopAt is a request for the chart of the shop at a place.
func shopAt(t *testing.T, place components.Place) chartsource.Request {
	t.Helper()
	req := ask(t, helmChart{ResourceRef: shopKey}, nil)
	req.Context = inContext(t, place.Context())
	return req
}

// publicShop is a registry with a component whose chart is plain, and a request for the chart.
func publicShop(t *testing.T) (components.Place, chartsource.Request) {
	t.Helper()
	place := components.Place{Registry: chartserver.StartRegistry(t, chartserver.Options{})}
	place.Push(t, shopWith(components.Resource{}))
	return place, shopAt(t, place)
}

var shopKey = components.Key(shop, version, "chart")

// TestComponents: a chart is found in each form in which the libraries of the component model write it. What cannot be
// right ends this job, and says what has to be changed.
// Rule (helm.md#charts-of-components): A chart of a component is found in each form of the libraries of the component
// model.
// Rule (helm.md#charts-of-components): A wrong component or chart of one ends the job of its item, with the necessary
// change.
func TestComponents(t *testing.T) {
	t.Parallel()
	registry, _, digest := registryWith(t, withLogin)
	push(t, registry, "charts/plain", "pinned", other) // the tag was moved
	repository, _ := repositoryWith(t, withLogin)
	files := chartserver.StartFiles(t, chartserver.Options{})
	manifest := fmt.Sprintf(`{"layers": [{"mediaType": %q, "digest": %q, "size": %d}]}`,
		chartserver.ChartMediaType, digestOf(plain), len(plain))
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	if _, err := registry.PushManifest("charts/plain", "sha512", manifestType, []byte(manifest)); err != nil {
		t.Fatal(err)
	}
	credentials := accessTo(repository.Server, files.Server)
	credentials.Registries = loginFor(registry.Host()).Registries
	cases.Run(t, "testdata/components.yaml", func(t *testing.T, c struct {
		// Component is the version without its resource Chart, Document its descriptor, and Longer is what is added to
		// the size of that.
		Component components.Version
		Chart     components.Resource
		Document  string
		Longer    int64
		// Key is by default that of Resource, a chart by default, with Identity.
		Key, Resource string
		Identity      []string
		Hashed        bool
		Reason        string
		Says          []string
	},
	) {
		v := shopWith(c.Chart, c.Component)
		v.Refer = func(d *ocispec.Descriptor) { d.Size += c.Longer }
		if c.Document != "" {
			v.Document = []byte(c.Document)
		}
		prefix := strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(path.Base(t.Name())))
		place := components.Place{Registry: registry, Prefix: prefix, HashedNames: c.Hashed}
		place.Push(t, v)
		key := cmp.Or(c.Key, components.Key(shop, v.Version, cmp.Or(c.Resource, "chart"), c.Identity...))
		req := ask(t, helmChart{ResourceRef: key}, credentials)
		req.Context = inContext(t, place.Context())
		w := newWorld(t, registry.Server)
		if c.Reason != "" {
			w.refuses(t, req, c.Reason, c.Says...)
			return
		}
		for range 2 {
			w.wants(t, req, plain)
			w.later()
		}
	}, "$REGISTRY", registry.Host(), "$DIGEST", digest, "$REPOSITORY", repository.URL(), "$SHA256", digestOf(plain),
		"$ADDRESS", files.Put("plain.tgz", plain), "$PLAIN", base64.StdEncoding.EncodeToString(plain),
		"$HUGE", strings.Repeat("b", 5<<20), "$SHA512", fmt.Sprintf(`{"meta": {"schemaVersion": "v2"}, "component": {`+
			`"name": %q, "version": %q, "resources": [{"name": "chart", "access": {"type": "ociArtifact", `+
			`"imageReference": %q}, "digest": {"hashAlgorithm": "SHA-512", "normalisationAlgorithm": `+
			`"ociArtifactDigest/v1", "value": "%x"}}]}}`,
			shop, version, registry.Ref("charts/plain", "sha512"), sha512.Sum512([]byte(manifest))))
}

// TestComponentRequests: an unchanged component costs one request for a manifest, and many items share it.
// Rule (helm.md#charts-of-components): An unchanged component costs one request for a manifest per job.
func TestComponentRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resource         components.Resource
		first, unchanged int
	}{
		"blob":         {components.Resource{}, 4, 1},
		"artifact set": {components.Resource{Stored: components.AsDots}, 4, 1},
		"manifest":     {components.Resource{Stored: components.AsManifest}, 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := chartserver.StartRegistry(t, chartserver.Options{})
			place := components.Place{Registry: registry}
			place.Push(t, shopWith(test.resource))
			registry.Forget()
			w, req := newWorld(t, registry.Server), shopAt(t, place)
			for round, want := range []int{test.first, 0, test.unchanged} {
				w.wants(t, req, plain)
				wantRequests(t, registry.Server, want, fmt.Sprintf("round %d", round))
				if round > 0 {
					w.later()
				}
			}
			place.Push(t, shopWith(components.Resource{Content: other}))
			w.wants(t, req, other)
		})
	}
}

// TestComponentPlaces: places are asked in their order; the next one only if one has no such version.
// Rule (helm.md#charts-of-components): The next place of components is asked only if one does not have the version.
func TestComponentPlaces(t *testing.T) {
	t.Parallel()
	empty := chartserver.StartRegistry(t, chartserver.Options{})
	private := chartserver.StartRegistry(t, withLogin)
	inFull, _ := publicShop(t)
	full := inFull.Registry
	tokens := chartserver.StartFiles(t, chartserver.Options{})
	away := chartserver.StartRegistry(t, chartserver.Options{
		Auth: chartserver.Bearer, User: user, Password: password, Tokens: tokens.Server,
	})
	cases.Run(t, "testdata/places.yaml", func(t *testing.T, c struct {
		Context map[string]any
		Config  json.RawMessage
		Problem string
		Reason  string // empty for none
		Says    []string
	},
	) {
		w := newWorld(t, empty.Server, full.Server, private.Server, away.Server, tokens.Server)
		req := ask(t, helmChart{ResourceRef: shopKey}, loginFor(away.Host()))
		if c.Config != nil || c.Problem != "" {
			req.OCMConfig = &sdk.OCMConfig{ConfigMap: "places", Content: c.Config, Problem: c.Problem}
		}
		if c.Context != nil {
			req.Context = inContext(t, c.Context)
		}
		if c.Reason == "" {
			w.wants(t, req, plain)
		} else {
			w.refuses(t, req, c.Reason, c.Says...)
		}
	}, "$FULL", full.Host(), "$EMPTY", empty.Host(), "$PRIVATE", private.Host(), "$AWAY", away.Host())
}

// TestComponentCredentials: of several logins those that are refused do not matter, and none gets to another server
// that a descriptor names.
// Rule (helm.md#charts-of-components): A login for a component goes to no other server of its descriptor.
func TestComponentCredentials(t *testing.T) {
	t.Parallel()
	registry, foreign := chartserver.StartRegistry(t, withLogin), chartserver.StartRegistry(t, withLogin)
	files := chartserver.StartFiles(t, withLogin)
	place := components.Place{Registry: registry}
	req := shopAt(t, place)
	req.Credentials = wrongLogin(registry.Host()+"/component-descriptors", loginFor(registry.Host()).Registries...)
	req.Credentials.ChartRepositories = trustIn(files.Server).ChartRepositories
	w := newWorld(t, registry.Server, foreign.Server)
	place.Push(t, shopWith(components.Resource{}))
	w.wants(t, req, plain)
	elsewhere := components.OCIArtifact(foreign.Ref("plain", "1.0.0"))
	for _, fields := range []map[string]any{
		elsewhere,
		{"type": "ociBlob", "ref": foreign.Host() + "/plain", "digest": digestOf(plain)},
		{"type": "wget", "url": files.Put("plain.tgz", plain)},
		{
			"type": "localBlob", "localReference": digestOf(other), "mediaType": chartserver.ChartMediaType,
			"globalAccess": elsewhere,
		},
	} {
		reason := chartsource.ReasonCredentialsMissing
		if fields["globalAccess"] != nil { // which is not asked
			reason = chartsource.ReasonNotFound
		}
		place.Push(t, shopWith(components.Resource{Access: fields}))
		w.later()
		w.refuses(t, req, reason)
	}
	if sent := append(foreign.WithCredentials(), files.WithCredentials()...); len(sent) > 0 {
		t.Errorf("expected no credentials for other servers, but found %v", sent)
	}
}

// TestComponentWarning: a part of the ConfigMap that does not count is told.
func TestComponentWarning(t *testing.T) {
	t.Parallel()
	place, req := publicShop(t)
	var warnings []string
	req.OCMConfig = &sdk.OCMConfig{Content: []byte(`{"type": "credentials.config.ocm.software", "consumers": []}`)}
	req.Warning = func(reason, text string) { warnings = append(warnings, reason+": "+text) }
	newWorld(t, place.Registry.Server).wants(t, req, plain)
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "OCMConfigIgnored: the credentials in the ConfigMap") {
		t.Errorf("expected one warning about the credentials, but found %q", warnings)
	}
}

// TestComponentResolver: a resolver for resourceRef is asked first, and leaves to the deployer what it does not know.
func TestComponentResolver(t *testing.T) {
	t.Parallel()
	place, req := publicShop(t)
	nobody := chart.ResolverFunc(func(context.Context, *chart.ResolveRequest) (*chart.Resolved, error) { return nil, nil })
	newWorldWith(t, chartsource.Config{Config: trusting(place.Registry.Server), Resolvers: resolvers(nobody)}).
		wants(t, req, plain)
}

// TestComponentIsRetried: what may heal by itself is tried again. A registry need not say how long a blob is.
func TestComponentIsRetried(t *testing.T) {
	t.Parallel()
	place, req := publicShop(t)
	registry := place.Registry
	w := newWorld(t, registry.Server)
	for _, test := range []struct {
		kind   chartserver.Kind
		status int
		reason string
		says   []string
	}{
		{chartserver.Manifest, http.StatusBadGateway, chartsource.ReasonUnavailable, []string{shop}},
		{chartserver.Blob, http.StatusBadGateway, chartsource.ReasonUnavailable, []string{shop}},
		{chartserver.Blob, http.StatusNotFound, chartsource.ReasonNotFound, []string{shop, registry.Host()}},
	} {
		mend := registry.Break(test.kind, chartserver.Answer(test.status, nil))
		w.refuses(t, req, test.reason, test.says...)
		mend()
	}
	defer registry.Break(chartserver.Kind(digestOf(plain)), func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_ = http.NewResponseController(w).Flush() // the client may have gone, here and below
		_, _ = w.Write(plain)
	})()
	w.wants(t, req, plain)
}
