package chartsource_test

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
)

const (
	shop    = "example.com/shop"
	version = "1.2.3"
)

var withLogin = chartserver.Options{Auth: chartserver.Basic, User: user, Password: password}

// shopWith is a version of the shop with the resource chart.
func shopWith(r components.Resource) components.Version {
	r.Name = "chart"
	return components.Version{Name: shop, Version: version, Resources: []components.Resource{r}}
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

// fetchKey fetches the chart of a key and returns its content.
func (w *world) fetchKey(t *testing.T, key string, req chartsource.Request) ([]byte, error) {
	t.Helper()
	req.Source = parse(t, helmv1alpha1.Chart{ResourceRef: key})
	archive, err := w.Fetch(t.Context(), &req)
	if err != nil {
		isSecretive(t, err.Error())
		return nil, err
	}
	defer archive.Release()
	if archive.Resource == nil || archive.Resource.Component != shop {
		t.Errorf("expected the resource that the chart is, but found %v", archive.Resource)
	}
	content, err := os.ReadFile(archive.Path)
	if err != nil || archive.Digest != digestOf(content) {
		t.Errorf("the archive is said to have the digest %s, but has %s; error: %v", archive.Digest, digestOf(content), err)
	}
	return content, nil
}

var shopKey = components.Key(shop, version, "chart")

// TestComponents: a chart is found in each form in which the libraries of the component model write it.
// Rule (helm.md#charts-of-components): A chart of a component is found in each form of the libraries of the component
// model.
func TestComponents(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, withLogin)
	push(t, registry, "charts/plain", "1.0.0", plain)
	digest := push(t, registry, "charts/plain", "pinned", plain)
	push(t, registry, "charts/plain", "pinned", other) // the tag was moved
	ref := func(reference string) components.Resource {
		return components.Resource{Access: components.OCIArtifact(registry.Ref("charts/plain", reference))}
	}
	repository := chartserver.StartRepository(t, withLogin)
	add(t, repository, plain)
	files := chartserver.StartFiles(t, chartserver.Options{})
	address := files.Put("plain.tgz", plain)
	blob := components.Resource{Content: plain}
	with := func(r components.Resource, change func(*components.Version)) components.Version {
		v := shopWith(r)
		change(&v)
		return v
	}
	manifest := fmt.Sprintf(`{"layers": [{"mediaType": %q, "digest": %q, "size": %d}]}`, chartserver.ChartMediaType, digestOf(plain), len(plain))
	if _, err := registry.PushManifest("charts/plain", "sha512", "application/vnd.oci.image.manifest.v1+json", []byte(manifest)); err != nil {
		t.Fatal(err)
	}
	withSHA512 := with(ref("sha512"), func(v *components.Version) {
		v.Document = fmt.Appendf(nil, `{"meta": {"schemaVersion": "v2"}, "component": {"name": %q, "version": %q, "resources": [{"name": "chart", `+
			`"access": {"type": "ociArtifact", "imageReference": %q}, "digest": {"hashAlgorithm": "SHA-512", "normalisationAlgorithm": "ociArtifactDigest/v1", "value": "%x"}}]}}`,
			shop, version, registry.Ref("charts/plain", "sha512"), sha512.Sum512([]byte(manifest)))
	})
	pinned := ref("pinned")
	pinned.Digest = components.Digest(digest)
	tests := map[string]components.Version{
		"blob":                  shopWith(blob),
		"chunks":                shopWith(components.Resource{Content: plain, Stored: components.AsChunks}),
		"artifact set, dots":    shopWith(components.Resource{Content: plain, Stored: components.AsDots}),
		"artifact set, slashes": shopWith(components.Resource{Content: plain, Stored: components.AsSlashes}),
		"manifest":              shopWith(components.Resource{Content: plain, Stored: components.AsManifest}),
		"manifest, marked":      with(components.Resource{Content: plain, Stored: components.AsManifest}, func(v *components.Version) { v.Marked = true }),
		"descriptor, JSON":      with(blob, func(v *components.Version) { v.DescriptorType = components.DescriptorJSON }),
		"descriptor, legacy": with(blob, func(v *components.Version) {
			v.DescriptorType, v.ConfigType = components.LegacyDescriptorTar, components.LegacyConfig
		}),
		"schema v3alpha1":        with(blob, func(v *components.Version) { v.Schema = components.SchemaV3 }),
		"no digest":              shopWith(components.Resource{Content: plain, Digest: components.NoDigest}),
		"excluded digest":        shopWith(components.Resource{Content: plain, Digest: components.ExcludedDigest}),
		"artifact":               shopWith(ref("1.0.0")),
		"artifact, pinned":       shopWith(ref("anything@" + digest)),
		"artifact, digest":       shopWith(pinned),
		"artifact, SHA-512":      withSHA512,
		"relative reference":     shopWith(components.Resource{Access: map[string]any{"type": "relativeOciReference", "reference": "charts/plain:1.0.0"}}),
		"chart repository":       shopWith(components.Resource{Content: plain, Access: map[string]any{"type": "helm", "helmRepository": repository.URL(), "helmChart": "plain:1.0.0"}}),
		"registry as repository": shopWith(components.Resource{Access: map[string]any{"type": "helm", "helmRepository": "oci://" + registry.Host() + "/charts", "helmChart": "plain", "version": "1.0.0"}}),
		"address":                shopWith(components.Resource{Content: plain, Access: map[string]any{"type": "wget", "url": address}}),
		"layer elsewhere":        shopWith(components.Resource{Access: map[string]any{"type": "ociBlob", "ref": registry.Host() + "/charts/plain", "digest": digestOf(plain)}}),
	}
	credentials := accessTo(repository.URL(), repository.CA())
	credentials.ChartRepositories = append(credentials.ChartRepositories, trustIn(files.URL(), files.CA()).ChartRepositories...)
	credentials.Registries = loginFor(registry.Host()).Registries
	for name, v := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := components.Place{Registry: registry, Prefix: strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(name))}
			place.Push(t, v)
			w := newWorld(t, registry.Server)
			req := chartsource.Request{Context: inContext(t, place.Context()), Credentials: credentials}
			for range 2 {
				if content, err := w.fetchKey(t, shopKey, req); err != nil || string(content) != string(plain) {
					t.Fatalf("expected the chart, but found %d bytes and %v", len(content), err)
				}
				w.later()
			}
		})
	}
}

// TestComponentRequests: an unchanged component costs one request for a manifest, beside that of a chart by its tag, and
// many items share them.
// Rule (helm.md#charts-of-components): An unchanged component costs one request for a manifest per job.
func TestComponentRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resource         components.Resource
		first, unchanged int
	}{
		"blob":         {components.Resource{Content: plain}, 4, 1},
		"artifact set": {components.Resource{Content: plain, Stored: components.AsDots}, 4, 1},
		"manifest":     {components.Resource{Content: plain, Stored: components.AsManifest}, 6, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := chartserver.StartRegistry(t, chartserver.Options{})
			place := components.Place{Registry: registry}
			place.Push(t, shopWith(test.resource))
			registry.Forget()
			w := newWorld(t, registry.Server)
			req := chartsource.Request{Context: inContext(t, place.Context())}
			for round, want := range []int{test.first, 0, test.unchanged} {
				if _, err := w.fetchKey(t, shopKey, req); err != nil {
					t.Fatal(err)
				}
				wantRequests(t, registry.Server, want, fmt.Sprintf("round %d", round))
				if round > 0 {
					w.later()
				}
			}
			place.Push(t, shopWith(components.Resource{Content: other}))
			if content, err := w.fetchKey(t, shopKey, req); err != nil || string(content) != string(other) {
				t.Errorf("expected the new content of the tag, but found %d bytes and %v", len(content), err)
			}
		})
	}
}

// TestComponentRefuses: what cannot be right ends this job, and says what has to be changed.
// Rule (helm.md#charts-of-components): A wrong component or chart of one ends the job of its item, with the necessary
// change.
func TestComponentRefuses(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	blob := components.Resource{Content: plain}
	const problem = v1alpha1.ErrorConfigurationProblem
	with := func(change func(*components.Version)) components.Version {
		v := shopWith(blob)
		change(&v)
		return v
	}
	access := func(fields map[string]any) components.Version { return shopWith(components.Resource{Access: fields}) }
	for name, test := range map[string]struct {
		version components.Version
		key     string
		reason  string
		says    []string
	}{
		"no base64":           {version: shopWith(blob), key: "%%", reason: chartsource.ReasonSourceInvalid, says: []string{"chart.resourceRef", "base64"}},
		"number as version":   {version: shopWith(blob), key: "Y29tcG9uZW50OiB7bmFtZTogZXhhbXBsZS5jb20vc2hvcCwgdmVyc2lvbjogMS4wfQpyZXNvdXJjZToge25hbWU6IGNoYXJ0fQo=", reason: chartsource.ReasonSourceInvalid, says: []string{"component.version", "quotes"}},
		"other resource":      {version: shopWith(blob), key: components.Key(shop, version, "other"), reason: chartsource.ReasonComponentInvalid, says: []string{`no resource "other"`, `it has "chart"`}},
		"other identity":      {version: shopWith(blob), key: components.Key(shop, version, "chart", "version", "1"), reason: chartsource.ReasonComponentInvalid, says: []string{"no resource"}},
		"unknown access":      {version: access(map[string]any{"type": "s3", "bucket": "b"}), reason: chartsource.ReasonComponentInvalid, says: []string{`"s3"`, "not supported"}},
		"unknown schema":      {version: with(func(v *components.Version) { v.Schema = "v9" }), reason: chartsource.ReasonComponentInvalid, says: []string{`schema "v9"`}},
		"other name inside":   {version: with(func(v *components.Version) { v.InsideName = "example.com/other" }), reason: chartsource.ReasonComponentInvalid, says: []string{`"example.com/other"`}},
		"other config":        {version: with(func(v *components.Version) { v.ConfigType = "application/json" }), reason: chartsource.ReasonComponentInvalid, says: []string{"no component"}},
		"no file in the tar":  {version: with(func(v *components.Version) { v.DescriptorFile = "x" }), reason: chartsource.ReasonComponentInvalid, says: []string{"component-descriptor.yaml"}},
		"bad YAML":            {version: with(func(v *components.Version) { v.Document = []byte("a: b: c") }), reason: chartsource.ReasonComponentInvalid, says: []string{"cannot be read"}},
		"ambiguous":           {version: with(func(v *components.Version) { v.Resources = append(v.Resources, v.Resources[0]) }), reason: chartsource.ReasonComponentInvalid, says: []string{"twice"}},
		"too large":           {version: with(func(v *components.Version) { v.Document = []byte("a: " + strings.Repeat("b", 5<<20)) }), reason: chartsource.ReasonTooLarge, says: []string{shop}},
		"size of descriptor":  {version: with(func(v *components.Version) { v.Refer = func(d *ocispec.Descriptor) { d.Size++ } }), reason: chartsource.ReasonDigestMismatch, says: []string{"another digest or size"}},
		"wrong digest":        {version: shopWith(components.Resource{Content: plain, Digest: components.WrongDigest}), reason: chartsource.ReasonDigestMismatch, says: []string{"resource", digestOf(plain)}},
		"wrong, artifact set": {version: shopWith(components.Resource{Content: plain, Stored: components.AsDots, Digest: components.WrongDigest}), reason: chartsource.ReasonDigestMismatch},
		"wrong, manifest":     {version: shopWith(components.Resource{Content: plain, Stored: components.AsManifest, Digest: components.WrongDigest}), reason: chartsource.ReasonDigestMismatch},
		"not a chart":         {version: shopWith(components.Resource{Content: []byte("{}")}), reason: chartsource.ReasonArchiveInvalid, says: []string{"gzipped tar"}},
		"no artifact set":     {version: shopWith(components.Resource{Content: plain, MediaType: "application/vnd.oci.image.manifest.v1+tar+gzip"}), reason: chartsource.ReasonArchiveInvalid, says: []string{"artifact set"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := components.Place{Registry: registry, Prefix: strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(name))}
			place.Push(t, test.version)
			w := newWorld(t, registry.Server)
			key := test.key
			if key == "" {
				key = shopKey
			}
			_, err := w.fetchKey(t, key, chartsource.Request{Context: inContext(t, place.Context())})
			isError(t, err, test.reason, problem, test.says...)
		})
	}
}

// TestComponentPlaces: places are asked in their order; the next one only if one has no such version.
// Rule (helm.md#charts-of-components): The next place of components is asked only if one does not have the version.
func TestComponentPlaces(t *testing.T) {
	t.Parallel()
	empty := chartserver.StartRegistry(t, chartserver.Options{})
	full := chartserver.StartRegistry(t, chartserver.Options{})
	private := chartserver.StartRegistry(t, withLogin)
	components.Place{Registry: full}.Push(t, shopWith(components.Resource{Content: plain}))
	at := func(r *chartserver.Registry) map[string]any { return components.Place{Registry: r}.Context() }
	resolver := func(r *chartserver.Registry) *sdk.OCMConfig {
		return &sdk.OCMConfig{ConfigMap: "places", Content: fmt.Appendf(nil,
			`{"type": "ocm.config.ocm.software", "resolvers": [{"repository": {"type": "OCIRegistry", "baseUrl": %q}, "prefix": %q}]}`,
			r.Host(), "example.com")}
	}
	const problem = v1alpha1.ErrorConfigurationProblem
	for name, test := range map[string]struct {
		context map[string]any
		config  *sdk.OCMConfig
		// reason of an error; empty for none.
		reason string
		code   v1alpha1.ErrorCode
		says   []string
	}{
		"resolver":               {config: resolver(full)},
		"second place":           {context: at(empty), config: resolver(full)},
		"nowhere yet":            {context: at(empty), config: resolver(empty), reason: chartsource.ReasonNotFound, says: []string{shop, version, empty.Host(), "push it"}},
		"refused":                {context: at(private), config: resolver(full), reason: chartsource.ReasonCredentialsMissing, code: problem, says: []string{private.Host()}},
		"no place":               {reason: chartsource.ReasonComponentInvalid, code: problem, says: []string{"nothing says where", "repositoryContext", "ocmConfig"}},
		"no ConfigMap":           {config: &sdk.OCMConfig{Problem: "there is no ConfigMap places"}, reason: chartsource.ReasonUnavailable, says: []string{"there is no ConfigMap places"}},
		"no ConfigMap, second":   {context: at(empty), config: &sdk.OCMConfig{Problem: "there is no ConfigMap places"}, reason: chartsource.ReasonUnavailable, says: []string{"there is no ConfigMap places", empty.Host()}},
		"ConfigMap not needed":   {context: at(full), config: &sdk.OCMConfig{Problem: "there is no ConfigMap places"}},
		"file":                   {context: map[string]any{"type": "CommonTransportFormat", "filePath": "/etc/passwd"}, reason: chartsource.ReasonComponentInvalid, code: problem, says: []string{"CommonTransportFormat"}},
		"unknown type":           {context: map[string]any{"type": "carrier-pigeon"}, reason: chartsource.ReasonComponentInvalid, code: problem, says: []string{"carrier-pigeon"}},
		"http, not of operator":  {context: map[string]any{"type": "OCIRegistry", "baseUrl": "http://" + full.Host()}, reason: chartsource.ReasonComponentInvalid, code: problem, says: []string{"plainHTTP"}},
		"ConfigMap is no config": {config: &sdk.OCMConfig{Content: []byte("a: b: c")}, reason: chartsource.ReasonComponentInvalid, code: problem, says: []string{"ocmConfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, empty.Server, full.Server, private.Server)
			req := chartsource.Request{OCMConfig: test.config}
			if test.context != nil {
				req.Context = inContext(t, test.context)
			}
			content, err := w.fetchKey(t, shopKey, req)
			switch {
			case test.reason != "":
				isError(t, err, test.reason, test.code, test.says...)
			case err != nil || string(content) != string(plain):
				t.Errorf("expected the chart, but found %d bytes and %v", len(content), err)
			}
		})
	}
}

// TestComponentCredentials: of several logins those that are refused do not matter, and none gets to another server that
// a descriptor names.
// Rule (helm.md#charts-of-components): A login for a component goes to no other server of its descriptor.
func TestComponentCredentials(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, withLogin)
	foreign := chartserver.StartRegistry(t, withLogin)
	files := chartserver.StartFiles(t, withLogin)
	wrong := fmt.Sprintf(`{"auths": {%q: {"username": "x", "password": "y"}}}`, registry.Host()+"/component-descriptors")
	credentials := withDockerConfig(wrong)
	credentials.Registries = append(credentials.Registries, loginFor(registry.Host()).Registries...)
	credentials.ChartRepositories = trustIn(files.URL(), files.CA()).ChartRepositories
	place := components.Place{Registry: registry}
	req := chartsource.Request{Context: inContext(t, place.Context()), Credentials: credentials}
	w := newWorld(t, registry.Server, foreign.Server)
	place.Push(t, shopWith(components.Resource{Content: plain}))
	if _, err := w.fetchKey(t, shopKey, req); err != nil {
		t.Fatal(err)
	}
	for name, fields := range map[string]map[string]any{
		"artifact": components.OCIArtifact(foreign.Ref("plain", "1.0.0")),
		"blob":     {"type": "ociBlob", "ref": foreign.Host() + "/plain", "digest": digestOf(plain)},
		"address":  {"type": "wget", "url": files.Put("plain.tgz", plain)},
		"global": {
			"type": "localBlob", "localReference": digestOf(other), "mediaType": chartserver.ChartMediaType,
			"globalAccess": components.OCIArtifact(foreign.Ref("plain", "1.0.0")),
		},
	} {
		place.Push(t, shopWith(components.Resource{Access: maps.Clone(fields)}))
		w.later()
		reason, code := chartsource.ReasonCredentialsMissing, v1alpha1.ErrorConfigurationProblem
		if name == "global" { // which is not asked
			reason, code = chartsource.ReasonNotFound, ""
		}
		_, err := w.fetchKey(t, shopKey, req)
		isError(t, err, reason, code)
	}
	if sent := append(foreign.WithCredentials(), files.WithCredentials()...); len(sent) > 0 {
		t.Errorf("expected no credentials for other servers, but found %v", sent)
	}
}

// TestComponentWarning: a part of the ConfigMap that does not count is told.
func TestComponentWarning(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	place := components.Place{Registry: registry}
	place.Push(t, shopWith(components.Resource{Content: plain}))
	var warnings []string
	_, err := newWorld(t, registry.Server).fetchKey(t, shopKey, chartsource.Request{
		Context:   inContext(t, place.Context()),
		OCMConfig: &sdk.OCMConfig{Content: []byte(`{"type": "credentials.config.ocm.software", "consumers": []}`)},
		Warning:   func(reason, text string) { warnings = append(warnings, reason+": "+text) },
	})
	if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], "OCMConfigIgnored: the credentials in the ConfigMap") {
		t.Errorf("expected one warning about the credentials, but found %q and %v", warnings, err)
	}
}

// TestComponentResolver: a resolver for resourceRef is asked first, and leaves to the deployer what it does not know.
func TestComponentResolver(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	place := components.Place{Registry: registry}
	place.Push(t, shopWith(components.Resource{Content: plain}))
	nobody := chart.ResolverFunc(func(context.Context, *chart.ResolveRequest) (*chart.Resolved, error) { return nil, nil })
	w := newWorldWith(t, chartsource.Config{
		Config:    fetch.Config{Registries: []fetch.Registry{{Host: registry.Host(), CAData: registry.CA()}}},
		Resolvers: map[chart.Field]chart.Resolver{chart.ResourceRef: nobody},
	})
	if _, err := w.fetchKey(t, shopKey, chartsource.Request{Context: inContext(t, place.Context())}); err != nil {
		t.Error(err)
	}
}

// TestComponentIsRetried: what may heal by itself is tried again.
func TestComponentIsRetried(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	place := components.Place{Registry: registry}
	place.Push(t, shopWith(components.Resource{Content: plain}))
	w := newWorld(t, registry.Server)
	req := chartsource.Request{Context: inContext(t, place.Context())}
	for _, kind := range []chartserver.Kind{chartserver.Manifest, chartserver.Blob} {
		mend := registry.Break(kind, chartserver.Answer(http.StatusBadGateway, nil))
		_, err := w.fetchKey(t, shopKey, req)
		isError(t, err, chartsource.ReasonUnavailable, "", shop)
		mend()
	}
	mend := registry.Break(chartserver.Blob, chartserver.Answer(http.StatusNotFound, nil))
	_, err := w.fetchKey(t, shopKey, req)
	isError(t, err, chartsource.ReasonNotFound, "", shop, registry.Host())
	mend()
	if _, err := w.fetchKey(t, shopKey, req); err != nil {
		t.Error(err)
	}
}

// TestComponentWithoutLength: a registry need not say how long a blob is.
func TestComponentWithoutLength(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	place := components.Place{Registry: registry}
	place.Push(t, shopWith(components.Resource{Content: plain}))
	defer registry.Break(chartserver.Kind(digestOf(plain)), func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_ = http.NewResponseController(w).Flush() // the client may have gone, here and below
		_, _ = w.Write(plain)
	})()
	req := chartsource.Request{Context: inContext(t, place.Context())}
	if content, err := newWorld(t, registry.Server).fetchKey(t, shopKey, req); err != nil || string(content) != string(plain) {
		t.Errorf("expected the chart, but found %d bytes and %v", len(content), err)
	}
}

// TestComponentTokenServer: a server of tokens that knows nothing says nothing about a component.
func TestComponentTokenServer(t *testing.T) {
	t.Parallel()
	tokens := chartserver.StartFiles(t, chartserver.Options{})
	private := chartserver.StartRegistry(t, chartserver.Options{
		Auth: chartserver.Bearer, User: user, Password: password, Tokens: tokens.Server,
	})
	full := chartserver.StartRegistry(t, chartserver.Options{})
	components.Place{Registry: full}.Push(t, shopWith(components.Resource{Content: plain}))
	_, err := newWorld(t, private.Server, full.Server, tokens.Server).fetchKey(t, shopKey, chartsource.Request{
		Context: inContext(t, components.Place{Registry: private}.Context()), Credentials: loginFor(private.Host()),
		OCMConfig: &sdk.OCMConfig{Content: fmt.Appendf(nil,
			`{"type": "ocm.config.ocm.software", "resolvers": [{"repository": {"type": "OCIRegistry", "baseUrl": %q}}]}`, full.Host())},
	})
	isError(t, err, chartsource.ReasonUnavailable, "", private.Host(), "404")
}
