package chartsource_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	bearer := withLogin
	bearer.Auth = chartserver.Bearer
	identity := bearer
	identity.IdentityToken = "the-identity"
	login := func(host string) *sdk.Credentials { return loginFor(host) }
	nobody := func(string) *sdk.Credentials { return nil }
	broken := func(string) *sdk.Credentials { return loginsOf(unusable) }
	for name, test := range map[string]struct {
		options chartserver.Options
		// credentials for the host of the registry.
		credentials func(host string) *sdk.Credentials
	}{
		"a public chart needs nothing":                       {chartserver.Options{}, nobody},
		"the operator may say that a registry is plain HTTP": {chartserver.Options{PlainHTTP: true}, nobody},
		"user and password are sent when they are asked for": {withLogin, login},
		"user and password are exchanged for a token":        {bearer, login},
		"a public chart needs nothing that can be used":      {chartserver.Options{}, broken},
		"an identity token of Docker is exchanged for another": {identity, func(host string) *sdk.Credentials {
			return withDockerConfig(fmt.Sprintf(`{"auths": {%q: {"identitytoken": "the-identity"}}}`, "https://"+host+"/v2/"))
		}},
		"of several logins those that are refused do not matter": {withLogin, func(host string) *sdk.Credentials {
			return wrongLogin(host+"/charts/plain", append(loginFor(host+"/charts").Registries, unusable)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, tagged, digest := registryWith(t, test.options)
			credentials := test.credentials(registry.Host())
			w := newWorld(t, registry.Server)
			w.want(t, tagged, credentials, plain)
			w.want(t, ofRef(registry.Ref("charts/plain", digest)), credentials, plain)
			w.want(t, ofRef(registry.Ref("charts/plain:1.0.0", digest)), credentials, plain)
		})
	}
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	for _, auth := range []chartserver.Auth{chartserver.Basic, chartserver.Bearer} {
		registry, chart, _ := registryWith(t, chartserver.Options{Auth: auth, User: user, Password: password})
		host := registry.Host()
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, registry.Server)
			w.wantError(t, chart, nil, chartsource.ReasonCredentialsMissing, host, "registryPullSecrets")
			others := loginFor("elsewhere.example.org", host+"/charts/pla")
			w.wantError(t, chart, others, chartsource.ReasonCredentialsMissing)
			w.wantError(t, chart, wrongLogin(host), chartsource.ReasonUnauthorized, "refuses the credentials")
			w.wantError(t, chart, loginsOf(unusable),
				chartsource.ReasonCredentialsInvalid, `Secret "pull": there is no such Secret`)
			w.wantError(t, chart, withDockerConfig("[]"), chartsource.ReasonCredentialsInvalid,
				`Secret "pull": expected a docker configuration`)
			w.wantError(t, chart, wrongLogin(host, unusable), chartsource.ReasonCredentialsInvalid, "there is no such Secret")
		})
	}
}

// TestRegistryLeaksNothing: blobs are elsewhere, and nobody there gets credentials.
// Rule (SECURITY.md#secrets): Credentials for charts go nowhere but to their server.
func TestRegistryLeaksNothing(t *testing.T) {
	t.Parallel()
	for _, auth := range []chartserver.Auth{chartserver.Basic, chartserver.Bearer} {
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			options := chartserver.Options{Auth: auth, User: user, Password: password}
			tokens := chartserver.StartRegistry(t, options)
			options.Tokens = tokens.Server
			registry, chart, _ := registryWith(t, options)
			files := chartserver.StartFiles(t, chartserver.Options{})
			registry.Break(chartserver.Blob, chartserver.Redirect(files.Put("blob", plain)+"?signature=x"))
			w := newWorld(t, registry.Server, tokens.Server, files.Server)
			w.want(t, chart, loginFor(registry.Host()), plain)
			if got := files.Requests(chartserver.Any); len(got) != 1 || got[0].HasCredentials() ||
				got[0].Header.Get("Referer") != "" {
				t.Errorf("expected one request elsewhere with nothing about credentials, but found %v", got)
			}
			for _, r := range registry.WithCredentials() {
				if auth == chartserver.Bearer && !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
					t.Errorf("expected only the token server to get the password, but %s had it", r)
				}
			}
			// The certificate of the other server is not trusted just because that of the registry is.
			newWorld(t, registry.Server, tokens.Server).
				wantError(t, chart, loginFor(registry.Host()), chartsource.ReasonUnavailable, "not trusted")
		})
	}
}

// Rule (helm.md#charts): A tag is resolved in each job, and the result is shared for some seconds.
func TestRegistryTags(t *testing.T) {
	t.Parallel()
	registry, tagged, digest := registryWith(t, chartserver.Options{})
	pinned := ofRef(registry.Ref("charts/plain", digest))
	w := newWorld(t, registry.Server)
	wants := func(chart helmChart, want []byte, requests int, why string) {
		t.Helper()
		w.want(t, chart, nil, want)
		wantRequests(t, registry.Server, requests, why)
	}
	wants(tagged, plain, 2, "manifest and archive")
	wants(tagged, plain, 0, "a tag that was looked up just now")
	w.later()
	wants(tagged, plain, 1, "a tag that was looked up a while ago")
	wants(pinned, plain, 2, "a digest for the first time")
	push(t, registry, "charts/plain", "1.0.0", other)
	wants(tagged, plain, 0, "a tag that has moved just now")
	w.later()
	wants(tagged, other, 2, "a tag that has moved a while ago")
	wants(pinned, plain, 0, "a digest, however old")
}

// TestRegistryKnowsWhoAsks: who has other credentials, or none, does not get what was fetched with some.
// Rule (SECURITY.md#authors-of-items): A chart fetched with credentials is given only to items with the same ones.
func TestRegistryKnowsWhoAsks(t *testing.T) {
	t.Parallel()
	registry, tagged, digest := registryWith(t, withLogin)
	w := newWorld(t, registry.Server)
	for _, chart := range []helmChart{tagged, ofRef(registry.Ref("charts/plain", digest))} {
		w.want(t, chart, loginFor(registry.Host()), plain)
		w.wantError(t, chart, nil, chartsource.ReasonCredentialsMissing)
		w.wantError(t, chart, wrongLogin(registry.Host()), chartsource.ReasonUnauthorized)
		registry.Forget()
		w.want(t, chart, loginFor("elsewhere.example.org", registry.Host()), plain)
		wantRequests(t, registry.Server, 0, "the same login among others")
	}
}

func TestRegistryManifests(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	blob, err := registry.PushBlob("things", plain)
	if err != nil {
		t.Fatal(err)
	}
	type descriptor map[string]any
	put := func(tag, mediaType string, document map[string]any) descriptor {
		content, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := registry.PushManifest("things", tag, mediaType, content)
		if err != nil {
			t.Fatal(err)
		}
		return descriptor{"mediaType": mediaType, "digest": digest, "size": len(content)}
	}
	of := func(mediaType string) descriptor {
		return descriptor{"mediaType": mediaType, "digest": blob, "size": len(plain)}
	}
	manifest := func(tag, config string, layers ...descriptor) descriptor {
		return put(tag, chartserver.ManifestMediaType, map[string]any{
			"schemaVersion": 2, "config": of(config), "layers": layers,
		})
	}
	index := func(tag string, manifests ...descriptor) {
		put(tag, "application/vnd.oci.image.index.v1+json", map[string]any{"schemaVersion": 2, "manifests": manifests})
	}
	layer := func(digest string, size int) descriptor {
		return descriptor{"mediaType": chartserver.ChartMediaType, "digest": digest, "size": size}
	}
	const config = chartserver.ConfigMediaType
	archive := of(chartserver.ChartMediaType)
	chart := manifest("chart", config, archive, of("application/vnd.cncf.helm.chart.provenance.v1.prov"))
	second := manifest("second", config, archive)
	image := manifest("image", "application/vnd.oci.image.config.v1+json",
		of("application/vnd.oci.image.layer.v1.tar+gzip"))
	manifest("legacy", config, of("application/tar+gzip"))
	push(t, registry, "things", "1.0.0_build", plain)
	index("with-image", image, chart)
	index("with-two", second, chart)
	manifest("two-layers", config, archive, archive)
	manifest("path", config, layer("sha256:../../../../etc/passwd", len(plain)))
	manifest("huge", config, layer(blob, 1<<40))
	manifest("wrong-size", config, layer(blob, len(plain)-1))

	w := newWorld(t, registry.Server)
	for tag, want := range map[string]struct{ reason, text string }{
		"chart": {}, "legacy": {}, "with-image": {}, "1.0.0+build": {},
		"image":      {chartsource.ReasonArchiveInvalid, "a container image"},
		"with-two":   {chartsource.ReasonArchiveInvalid, "with 2 manifests of a chart"},
		"two-layers": {chartsource.ReasonArchiveInvalid, "2 layers"},
		"path":       {chartsource.ReasonArchiveInvalid, "invalid digest or size"},
		"huge":       {chartsource.ReasonTooLarge, "larger than"},
		"wrong-size": {chartsource.ReasonDigestMismatch, "another digest or size"},
		"nothing":    {chartsource.ReasonNotFound, "no such artifact"},
	} {
		t.Run(tag, func(t *testing.T) {
			chart := ofRef(registry.Ref("things", tag))
			if want.reason == "" {
				w.want(t, chart, nil, plain)
				return
			}
			w.wantError(t, chart, nil, want.reason, want.text, chart.Ref)
		})
	}
}

// TestServersMisbehave: a job says what a registry or a repository did, and a later one finds it mended.
func TestServersMisbehave(t *testing.T) {
	t.Parallel()
	const (
		manifest, blob, index, file = chartserver.Manifest, chartserver.Blob, chartserver.Index, chartserver.File
		unavailable, tooLarge       = chartsource.ReasonUnavailable, chartsource.ReasonTooLarge
		invalid, mismatch           = chartsource.ReasonArchiveInvalid, chartsource.ReasonDigestMismatch
	)
	const toHTTP = "http://127.0.0.1:1/x?signature=y"
	busy := chartserver.Answer(http.StatusTooManyRequests, nil)
	page := chartserver.Answer(http.StatusOK, []byte("<html>"))
	endlessIndex := chartserver.Endless([]byte("apiVersion: v1\n"))
	internal := chartserver.Answer(http.StatusUnauthorized, nil,
		"WWW-Authenticate", `Bearer realm="https://169.254.169.254/token",service="x"`)
	for name, test := range map[string]struct {
		kind         chartserver.Kind
		fault        chartserver.Fault
		reason, text string
	}{
		"a busy registry is tried again":  {manifest, busy, unavailable, "429"},
		"another content has no digest":   {blob, corrupt, mismatch, "digest"},
		"nothing is read beyond its size": {blob, chartserver.Endless(plain), mismatch, "size"},
		"a page is no manifest":           {manifest, page, invalid, "manifest"},
		"nobody is led to http":           {blob, chartserver.Redirect(toHTTP), unavailable, "from https to http"},
		"nobody is led inside":            {manifest, internal, unavailable, "internal address"},
		"a connection can break":          {file, cut, unavailable, "broke off"},
		"an archive has a limit":          {file, chartserver.Endless(plain), tooLarge, "65536 bytes"},
		"an index has a limit":            {index, endlessIndex, tooLarge, "65537 bytes"},
		"a page is no index":              {index, page, invalid, "helmChartRepoUrl"},
		"a server that hangs is given up": {file, chartserver.Stall(plain[:10]), unavailable, "stopped sending"},
		"there is an end to redirects":    {index, chartserver.Redirect("index.yaml"), unavailable, "redirected more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, chart, _ := registryWith(t, chartserver.Options{})
			repository, ofIndex := repositoryWith(t, chartserver.Options{})
			credentials := accessTo(repository.Server)
			credentials.Registries = loginFor(registry.Host()).Registries
			server := registry.Server
			if test.kind == index || test.kind == file {
				server, chart = repository.Server, ofIndex
			}
			mend := server.Break(test.kind, test.fault)
			w := newWorldWith(t, chartsource.Config{
				Config: trusting(registry.Server), ArchiveBytes: 1 << 16, IndexBytes: 1<<16 + 1,
			})
			w.wantError(t, chart, credentials, test.reason, test.text)
			mend()
			w.later()
			w.want(t, chart, credentials, plain)
		})
	}
}
