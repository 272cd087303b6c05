package chartsource_test

import (
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
)

const (
	shop    = "example.com/shop"
	store   = "example.com/store"
	version = "1.2.3"
)

// shopWith is a version of the shop with the resource chart.
func shopWith(r resource) form {
	r.Name = "chart"
	return form{Name: shop, Version: version, Resources: []resource{r}}
}

type (
	resource = components.Resource
	form     = components.Version
)

// as is the shop with the chart plain, in a form.
func as(v form) form {
	v.Name, v.Version = shop, cmp.Or(v.Version, version)
	v.Resources = append([]resource{{Name: "chart", Content: plain}}, v.Resources...)
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
	place.Push(t, shopWith(resource{Content: plain}))
	return place, shopAt(t, place)
}

// prefixOf is a path for the component of a case.
func prefixOf(name string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(name))
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
	repository, _ := repositoryWith(t, withLogin)
	files := chartserver.StartFiles(t, chartserver.Options{})
	address := files.Put("plain.tgz", plain)
	manifest := fmt.Sprintf(`{"layers": [{"mediaType": %q, "digest": %q, "size": %d}]}`,
		chartserver.ChartMediaType, digestOf(plain), len(plain))
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	if _, err := registry.PushManifest("charts/plain", "sha512", manifestType, []byte(manifest)); err != nil {
		t.Fatal(err)
	}
	withSHA512 := fmt.Appendf(nil, `{"meta": {"schemaVersion": "v2"}, "component": {"name": %q, "version": %q, `+
		`"resources": [{"name": "chart", "access": {"type": "ociArtifact", "imageReference": %q}, "digest": `+
		`{"hashAlgorithm": "SHA-512", "normalisationAlgorithm": "ociArtifactDigest/v1", "value": "%x"}}]}}`,
		shop, version, registry.Ref("charts/plain", "sha512"), sha512.Sum512([]byte(manifest)))

	type fields = map[string]any
	blob := func(r resource) form {
		r.Content = plain
		return shopWith(r)
	}
	access := func(fields fields) form { return shopWith(resource{Access: fields}) }
	ref := func(reference string) fields { return components.OCIArtifact(registry.Ref("charts/plain", reference)) }
	blobWith := func(fields fields) form { return shopWith(resource{Content: plain, Access: fields}) }
	asManifest := blob(resource{Stored: components.AsManifest})
	marked, inJSON := asManifest, asManifest
	marked.Marked, inJSON.DescriptorType = true, components.DescriptorJSON
	linux := map[string]string{"os": "linux"}
	alike := blob(resource{Version: "0.1.0"})
	alike.Resources = append(alike.Resources, resource{Name: "chart", Content: other})
	credentials := accessTo(repository.Server, files.Server)
	credentials.Registries = loginFor(registry.Host()).Registries
	for name, test := range map[string]struct {
		component form
		key       []string // beside the name
		hashed    bool
	}{
		"blob":                  {component: blob(resource{})},
		"chunks":                {component: blob(resource{Stored: components.AsChunks})},
		"artifact set, dots":    {component: blob(resource{Stored: components.AsDots})},
		"artifact set, slashes": {component: blob(resource{Stored: components.AsSlashes})},
		"manifest":              {component: asManifest},
		"manifest, marked":      {component: marked},
		"manifest, JSON":        {component: inJSON},
		"descriptor, JSON":      {component: as(form{DescriptorType: components.DescriptorJSON})},
		"descriptor, YAML":      {component: as(form{DescriptorType: components.DescriptorYAML})},
		"descriptor, legacy": {component: as(form{
			DescriptorType: components.LegacyDescriptorTar, ConfigType: components.LegacyConfig,
		})},
		"descriptor, legacy JSON": {component: as(form{
			DescriptorType: components.LegacyDescriptorJSON, ConfigType: components.LegacyConfig,
		})},
		"schema v3alpha1":   {component: as(form{Schema: components.SchemaV3})},
		"hash of the name":  {component: blob(resource{}), hashed: true},
		"version, build":    {component: as(form{Version: "1.0.0+abc"})},
		"identity":          {blob(resource{ExtraIdentity: linux}), []string{"os", "linux"}, false},
		"versions, alike":   {alike, []string{"version", "0.1.0"}, false},
		"other types":       {component: blob(resource{Type: "helm.io/chart", MediaType: "application/x-tgz"})},
		"no digest":         {component: blob(resource{Digest: components.NoDigest})},
		"excluded digest":   {component: blob(resource{Digest: components.ExcludedDigest})},
		"artifact":          {component: access(ref("1.0.0"))},
		"artifact, pinned":  {component: access(ref("anything@" + digest))},
		"artifact, digest":  {component: shopWith(resource{Access: ref("pinned"), Digest: components.Digest(digest)})},
		"artifact, SHA-512": {component: as(form{Document: withSHA512})},
		"relative reference": {component: access(fields{
			"type": "relativeOciReference", "reference": "charts/plain:1.0.0",
		})},
		"chart repository": {component: blobWith(fields{
			"type": "helm", "helmRepository": repository.URL(), "helmChart": "plain:1.0.0",
		})},
		"registry as repository": {component: access(fields{
			"type": "helm", "helmRepository": "oci://" + registry.Host() + "/charts", "helmChart": "plain", "version": "1.0.0",
		})},
		"address": {component: blobWith(fields{"type": "wget", "url": address})},
		"layer elsewhere": {component: access(fields{
			"type": "ociBlob", "ref": registry.Host() + "/charts/plain", "digest": digestOf(plain),
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := components.Place{Registry: registry, Prefix: prefixOf(name), HashedNames: test.hashed}
			place.Push(t, test.component)
			w := newWorld(t, registry.Server)
			key := components.Key(shop, test.component.Version, "chart", test.key...)
			req := ask(t, helmChart{ResourceRef: key}, credentials)
			req.Context = inContext(t, place.Context())
			for range 2 {
				w.wants(t, req, plain)
				w.later()
			}
		})
	}
}

// TestComponentRequests: an unchanged component costs one request for a manifest, and many items share it.
// Rule (helm.md#charts-of-components): An unchanged component costs one request for a manifest per job.
func TestComponentRequests(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		resource         resource
		first, unchanged int
	}{
		"blob":         {resource{Content: plain}, 4, 1},
		"artifact set": {resource{Content: plain, Stored: components.AsDots}, 4, 1},
		"manifest":     {resource{Content: plain, Stored: components.AsManifest}, 6, 1},
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
			place.Push(t, shopWith(resource{Content: other}))
			w.wants(t, req, other)
		})
	}
}

// TestComponentRefuses: what cannot be right ends this job, and says what has to be changed.
// Rule (helm.md#charts-of-components): A wrong component or chart of one ends the job of its item, with the necessary
// change.
func TestComponentRefuses(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	type says = []string
	of := func(r resource) form {
		if r.Content == nil && r.Access == nil {
			r.Content = plain
		}
		return shopWith(r)
	}
	const (
		invalid, mismatch = chartsource.ReasonComponentInvalid, chartsource.ReasonDigestMismatch
		source, archive   = chartsource.ReasonSourceInvalid, chartsource.ReasonArchiveInvalid
		wrong             = components.WrongDigest
		number            = "component: {name: example.com/shop, version: 1.0}\nresource: {name: chart}\n"
		set               = "application/vnd.oci.image.manifest.v1+tar+gzip"
	)
	s3 := map[string]any{"type": "s3", "bucket": "b"}
	numberKey := base64.StdEncoding.EncodeToString([]byte(number))
	otherKey := components.Key(shop, version, "other")
	identityKey := components.Key(shop, version, "chart", "version", "1")
	sized := func(size int64) form { return as(form{Refer: func(d *ocispec.Descriptor) { d.Size += size }}) }
	document := func(d string) form { return as(form{Document: []byte(d)}) }
	for name, test := range map[string]struct {
		version form
		key     string
		reason  string
		says    says
	}{
		"no base64":           {of(resource{}), "%%", source, says{"chart.resourceRef", "base64"}},
		"number as version":   {of(resource{}), numberKey, source, says{"component.version", "quotes"}},
		"other resource":      {of(resource{}), otherKey, invalid, says{`no resource "other"`, `it has "chart"`}},
		"other identity":      {of(resource{}), identityKey, invalid, says{"no resource"}},
		"unknown access":      {of(resource{Access: s3}), "", invalid, says{`"s3"`, "not supported"}},
		"unknown schema":      {as(form{Schema: "v9"}), "", invalid, says{`schema "v9"`}},
		"other name inside":   {as(form{InsideName: store}), "", invalid, says{`"` + store + `"`}},
		"other version":       {as(form{InsideVersion: "1.2.4"}), "", invalid, says{`"1.2.4"`}},
		"other config":        {as(form{ConfigType: "a/b"}), "", invalid, says{"no component", `"a/b"`}},
		"other descriptor":    {as(form{DescriptorType: "a/b"}), "", invalid, says{`"a/b"`, "not known"}},
		"no file in the tar":  {as(form{DescriptorFile: "x"}), "", invalid, says{"descriptor.yaml"}},
		"bad YAML":            {document("a: b: c"), "", invalid, says{"cannot be read"}},
		"ambiguous":           {as(form{Resources: []resource{{Name: "chart"}}}), "", invalid, says{"twice"}},
		"too large":           {document("a: " + strings.Repeat("b", 5<<20)), "", chartsource.ReasonTooLarge, says{shop}},
		"size of descriptor":  {sized(1), "", mismatch, says{"another digest or size"}},
		"negative size":       {sized(-1 << 40), "", invalid, says{"an invalid digest or size"}},
		"wrong digest":        {of(resource{Digest: wrong}), "", mismatch, says{"resource", digestOf(plain)}},
		"wrong, chunks":       {of(resource{Digest: wrong, Stored: components.AsChunks}), "", mismatch, nil},
		"wrong, artifact set": {of(resource{Digest: wrong, Stored: components.AsDots}), "", mismatch, nil},
		"wrong, manifest":     {of(resource{Digest: wrong, Stored: components.AsManifest}), "", mismatch, nil},
		"not a chart":         {of(resource{Content: []byte("{}")}), "", archive, says{"gzipped tar"}},
		"no artifact set":     {of(resource{MediaType: set}), "", archive, says{"artifact set"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			place := components.Place{Registry: registry, Prefix: prefixOf(name)}
			place.Push(t, test.version)
			req := ask(t, helmChart{ResourceRef: cmp.Or(test.key, shopKey)}, nil)
			req.Context = inContext(t, place.Context())
			newWorld(t, registry.Server).refuses(t, req, test.reason, test.says...)
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
	at := func(r *chartserver.Registry) map[string]any { return components.Place{Registry: r}.Context() }
	resolver := func(r *chartserver.Registry) *sdk.OCMConfig {
		return &sdk.OCMConfig{ConfigMap: "places", Content: fmt.Appendf(nil, `{"type": "ocm.config.ocm.software", `+
			`"resolvers": [{"repository": {"type": "OCIRegistry", "baseUrl": %q}, "prefix": "example.com"}]}`, r.Host())}
	}
	type (
		fields = map[string]any
		says   = []string
	)
	file := fields{"type": "CommonTransportFormat", "filePath": "/etc/passwd"}
	plainHTTP := fields{"type": "OCIRegistry", "baseUrl": "http://" + full.Host()}
	missing := &sdk.OCMConfig{Problem: "there is no ConfigMap places"}
	const (
		invalid, unavailable = chartsource.ReasonComponentInvalid, chartsource.ReasonUnavailable
		notFound, noLogin    = chartsource.ReasonNotFound, chartsource.ReasonCredentialsMissing
	)
	for name, test := range map[string]struct {
		context fields
		config  *sdk.OCMConfig
		// reason of an error; empty for none.
		reason string
		says   says
	}{
		"resolver":               {nil, resolver(full), "", nil},
		"second place":           {at(empty), resolver(full), "", nil},
		"nowhere yet":            {at(empty), resolver(empty), notFound, says{shop, version, empty.Host(), "push it"}},
		"refused":                {at(private), resolver(full), noLogin, says{private.Host()}},
		"no place":               {nil, nil, invalid, says{"nothing says where", "repositoryContext", "ocmConfig"}},
		"no ConfigMap":           {nil, missing, unavailable, says{"there is no ConfigMap places"}},
		"no ConfigMap, second":   {at(empty), missing, unavailable, says{"there is no ConfigMap places", empty.Host()}},
		"ConfigMap not needed":   {at(full), missing, "", nil},
		"file":                   {file, nil, invalid, says{"CommonTransportFormat"}},
		"unknown type":           {fields{"type": "carrier-pigeon"}, nil, invalid, says{"carrier-pigeon"}},
		"http, not of operator":  {plainHTTP, nil, invalid, says{"plainHTTP"}},
		"ConfigMap is no config": {nil, &sdk.OCMConfig{Content: []byte("a: b: c")}, invalid, says{"ocmConfig"}},
		// A server of tokens that knows nothing says nothing about a component.
		"no token": {at(away), resolver(full), unavailable, says{away.Host(), "404"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, empty.Server, full.Server, private.Server, away.Server, tokens.Server)
			req := ask(t, helmChart{ResourceRef: shopKey}, loginFor(away.Host()))
			req.OCMConfig = test.config
			if test.context != nil {
				req.Context = inContext(t, test.context)
			}
			if test.reason == "" {
				w.wants(t, req, plain)
			} else {
				w.refuses(t, req, test.reason, test.says...)
			}
		})
	}
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
	place.Push(t, shopWith(resource{Content: plain}))
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
		place.Push(t, shopWith(resource{Access: fields}))
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
