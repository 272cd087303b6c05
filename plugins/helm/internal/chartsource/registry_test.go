package chartsource_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		options chartserver.Options
		// credentials for the host of the registry.
		credentials func(host string) *sdk.Credentials
		oci         string
	}{
		"Anybody":   {reason: "a public chart needs nothing"},
		"PlainHTTP": {reason: "the operator may say so for a registry", options: chartserver.Options{PlainHTTP: true}},
		"Basic": {
			reason:      "user and password are sent when they are asked for",
			options:     chartserver.Options{Auth: chartserver.Basic, User: user, Password: password},
			credentials: func(host string) *sdk.Credentials { return loginFor(host) },
		},
		"Bearer": {
			reason:      "they are exchanged for a token",
			options:     chartserver.Options{Auth: chartserver.Bearer, User: user, Password: password},
			credentials: func(host string) *sdk.Credentials { return loginFor(host) },
		},
		"IdentityToken": {
			reason:  "a token of Docker is exchanged for another",
			options: chartserver.Options{Auth: chartserver.Bearer, User: user, Password: password, IdentityToken: "the-identity"},
			credentials: func(host string) *sdk.Credentials {
				return withDockerConfig(fmt.Sprintf(`{"auths": {%q: {"identitytoken": "the-identity"}}}`, "https://"+host+"/v2/"))
			},
		},
		"Unusable": {
			reason: "a public chart needs nothing that can be used",
			credentials: func(string) *sdk.Credentials {
				return &sdk.Credentials{Registries: []sdk.RegistryCredentials{{Secret: "pull", Problem: "gone"}}}
			},
		},
		"SecondLogin": {
			reason:  "of several logins those that are refused do not matter",
			options: chartserver.Options{Auth: chartserver.Basic, User: user, Password: password},
			credentials: func(host string) *sdk.Credentials {
				c := withDockerConfig(fmt.Sprintf(`{"auths": {%q: {"username": "x", "password": "y"}}}`, host+"/charts/plain"))
				c.Registries = append(c.Registries, sdk.RegistryCredentials{Secret: "none", Problem: "there is no such Secret"})
				c.Registries = append(c.Registries, loginFor(host+"/charts").Registries...)
				return c
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := chartserver.StartRegistry(t, test.options)
			digest := push(t, registry, "charts/plain", "1.0.0", plain)
			var credentials *sdk.Credentials
			if test.credentials != nil {
				credentials = test.credentials(registry.Host())
			}
			w := newWorld(t, registry.Server)
			w.want(t, ofRef(test.oci+registry.Ref("charts/plain", "1.0.0")), credentials, plain)
			w.want(t, ofRef(test.oci+registry.Ref("charts/plain", digest)), credentials, plain)
			w.want(t, ofRef(test.oci+registry.Ref("charts/plain:1.0.0", digest)), credentials, plain)
			if t.Failed() {
				t.Log(test.reason)
			}
		})
	}
}

func withDockerConfig(document string) *sdk.Credentials {
	return &sdk.Credentials{Registries: []sdk.RegistryCredentials{{Secret: "pull", DockerConfig: []byte(document)}}}
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	for _, auth := range []chartserver.Auth{chartserver.Basic, chartserver.Bearer} {
		registry := chartserver.StartRegistry(t, chartserver.Options{Auth: auth, User: user, Password: password})
		push(t, registry, "charts/plain", "1.0.0", plain)
		chart := ofRef(registry.Ref("charts/plain", "1.0.0"))
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, registry.Server)
			w.wantError(t, chart, nil, chartsource.ReasonCredentialsMissing, v1alpha1.ErrorConfigurationProblem, registry.Host(), "registryPullSecrets")
			w.wantError(t, chart, loginFor("elsewhere.example.org", registry.Host()+"/charts/pla"), chartsource.ReasonCredentialsMissing,
				v1alpha1.ErrorConfigurationProblem)
			wrong := withDockerConfig(fmt.Sprintf(`{"auths": {%q: {"username": "x", "password": %q}}}`, registry.Host(), password))
			w.wantError(t, chart, wrong, chartsource.ReasonUnauthorized, v1alpha1.ErrorUnauthorized, "refuses the credentials")
			unusable := &sdk.Credentials{Registries: []sdk.RegistryCredentials{{Secret: "pull", Problem: "there is no such Secret"}}}
			w.wantError(t, chart, unusable, chartsource.ReasonCredentialsInvalid, "", `Secret "pull": there is no such Secret`)
			w.wantError(t, chart, withDockerConfig("[]"), chartsource.ReasonCredentialsInvalid, "", `Secret "pull": expected a docker configuration`)
			wrong.Registries = append(wrong.Registries, unusable.Registries...)
			w.wantError(t, chart, wrong, chartsource.ReasonCredentialsInvalid, "", "there is no such Secret")
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
			tokens := chartserver.StartRegistry(t, chartserver.Options{Auth: auth, User: user, Password: password})
			registry := chartserver.StartRegistry(t, chartserver.Options{
				Auth: auth, User: user, Password: password, Tokens: tokens.Server,
			})
			push(t, registry, "plain", "1.0.0", plain)
			files := chartserver.StartFiles(t, chartserver.Options{})
			registry.Break(chartserver.Blob, chartserver.Redirect(files.Put("blob", plain)+"?signature=x"))
			w := newWorld(t, registry.Server, tokens.Server, files.Server)
			w.want(t, ofRef(registry.Ref("plain", "1.0.0")), loginFor(registry.Host()), plain)
			if got := files.Count(chartserver.Any); got != 1 {
				t.Errorf("expected the archive to be asked for once elsewhere, but found %d requests", got)
			}
			for _, r := range files.Requests(chartserver.Any) {
				if r.HasCredentials() || r.Header.Get("Referer") != "" {
					t.Errorf("expected nothing about credentials in %s, but found %v", r, r.Header)
				}
			}
			for _, r := range registry.WithCredentials() {
				if auth == chartserver.Bearer && !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
					t.Errorf("expected only the token server to get the password, but %s had it", r)
				}
			}
			// The certificate of the other server is not trusted just because that of the registry is.
			w = newWorld(t, registry.Server, tokens.Server)
			_, err := w.fetch(t, ofRef(registry.Ref("plain", "1.0.0")), loginFor(registry.Host()))
			isError(t, err, chartsource.ReasonUnavailable, "", "not trusted")
		})
	}
}

// Rule (helm.md#charts): A tag is resolved in each job, and the result is shared for some seconds.
func TestRegistryTags(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{})
	digest := push(t, registry, "plain", "latest", plain)
	tagged, pinned := ofRef(registry.Ref("plain", "latest")), ofRef(registry.Ref("plain", digest))
	w := newWorld(t, registry.Server)
	w.want(t, tagged, nil, plain)
	wantRequests(t, registry.Server, 2, "manifest and archive")
	w.want(t, tagged, nil, plain)
	wantRequests(t, registry.Server, 0, "a tag that was looked up just now")
	w.later()
	w.want(t, tagged, nil, plain)
	wantRequests(t, registry.Server, 1, "a tag that was looked up a while ago")
	w.want(t, pinned, nil, plain)
	wantRequests(t, registry.Server, 2, "a digest for the first time")
	push(t, registry, "plain", "latest", other)
	w.want(t, tagged, nil, plain)
	wantRequests(t, registry.Server, 0, "a tag that has moved just now")
	w.later()
	w.want(t, tagged, nil, other)
	wantRequests(t, registry.Server, 2, "a tag that has moved a while ago")
	w.want(t, pinned, nil, plain)
	wantRequests(t, registry.Server, 0, "a digest, however old")
}

// TestRegistryKnowsWhoAsks: who has other credentials, or none, does not get what was fetched with some.
// Rule (SECURITY.md#authors-of-items): A chart fetched with credentials is given only to items with the same ones.
func TestRegistryKnowsWhoAsks(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{Auth: chartserver.Basic, User: user, Password: password})
	digest := push(t, registry, "plain", "1.0.0", plain)
	w := newWorld(t, registry.Server)
	for _, reference := range []string{"1.0.0", digest} {
		chart := ofRef(registry.Ref("plain", reference))
		w.want(t, chart, loginFor(registry.Host()), plain)
		w.wantError(t, chart, nil, chartsource.ReasonCredentialsMissing, v1alpha1.ErrorConfigurationProblem)
		wrong := withDockerConfig(fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": "x"}}}`, registry.Host(), user))
		w.wantError(t, chart, wrong, chartsource.ReasonUnauthorized, v1alpha1.ErrorUnauthorized)
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
	manifest := func(tag, config string, layers ...descriptor) descriptor {
		return put(tag, chartserver.ManifestMediaType, map[string]any{
			"schemaVersion": 2, "config": descriptor{"mediaType": config, "digest": blob, "size": len(plain)}, "layers": layers,
		})
	}
	index := func(tag string, manifests ...descriptor) {
		put(tag, "application/vnd.oci.image.index.v1+json", map[string]any{"schemaVersion": 2, "manifests": manifests})
	}
	of := func(mediaType string) descriptor {
		return descriptor{"mediaType": mediaType, "digest": blob, "size": len(plain)}
	}
	layer := func(digest string, size int) descriptor {
		return descriptor{"mediaType": chartserver.ChartMediaType, "digest": digest, "size": size}
	}
	const config = chartserver.ConfigMediaType
	archive := of(chartserver.ChartMediaType)
	chart := manifest("chart", config, archive, of("application/vnd.cncf.helm.chart.provenance.v1.prov"))
	second := manifest("second", config, archive)
	image := manifest("image", "application/vnd.oci.image.config.v1+json", of("application/vnd.oci.image.layer.v1.tar+gzip"))
	manifest("legacy", config, of("application/tar+gzip"))
	push(t, registry, "things", "1.0.0_build", plain)
	index("with-image", image, chart)
	index("with-two", second, chart)
	manifest("two-layers", config, archive, archive)
	manifest("path", config, layer("sha256:../../../../etc/passwd", len(plain)))
	manifest("huge", config, layer(blob, 1<<40))
	manifest("wrong-size", config, layer(blob, len(plain)-1))

	w := newWorld(t, registry.Server)
	for tag, want := range map[string][]byte{"chart": plain, "legacy": plain, "with-image": plain, "1.0.0+build": plain} {
		t.Run(tag, func(t *testing.T) { w.want(t, ofRef(registry.Ref("things", tag)), nil, want) })
	}
	const problem = v1alpha1.ErrorConfigurationProblem
	for tag, want := range map[string]struct {
		reason string
		code   v1alpha1.ErrorCode
		text   string
	}{
		"image":      {chartsource.ReasonArchiveInvalid, problem, "a container image"},
		"with-two":   {chartsource.ReasonArchiveInvalid, problem, "with 2 manifests of a chart"},
		"two-layers": {chartsource.ReasonArchiveInvalid, problem, "2 layers"},
		"path":       {chartsource.ReasonArchiveInvalid, problem, "invalid digest or size"},
		"huge":       {chartsource.ReasonTooLarge, problem, "larger than"},
		"wrong-size": {chartsource.ReasonDigestMismatch, problem, "another digest or size"},
		"nothing":    {chartsource.ReasonNotFound, "", "no such artifact"},
	} {
		t.Run(tag, func(t *testing.T) {
			w.wantError(t, ofRef(registry.Ref("things", tag)), nil, want.reason, want.code, want.text, registry.Ref("things", tag))
		})
	}
}

func TestRegistryMisbehaves(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason    string
		kind      chartserver.Kind
		fault     chartserver.Fault
		wantError string
		code      v1alpha1.ErrorCode
		text      string
	}{
		"Busy":     {"it is tried again", chartserver.Manifest, chartserver.Answer(http.StatusTooManyRequests, nil), chartsource.ReasonUnavailable, "", "429"},
		"Corrupt":  {"what was sent is not what it should be", chartserver.Blob, corrupt, chartsource.ReasonDigestMismatch, v1alpha1.ErrorConfigurationProblem, "digest"},
		"Endless":  {"nothing is read beyond its size", chartserver.Blob, chartserver.Endless(plain), chartsource.ReasonDigestMismatch, v1alpha1.ErrorConfigurationProblem, "size"},
		"Manifest": {"it is no manifest", chartserver.Manifest, chartserver.Answer(http.StatusOK, []byte("<html>")), chartsource.ReasonArchiveInvalid, v1alpha1.ErrorConfigurationProblem, "manifest"},
		"Downgrade": {
			"nobody is led from https to http", chartserver.Blob, chartserver.Redirect("http://127.0.0.1:1/x?signature=y"),
			chartsource.ReasonUnavailable, "", "from https to http",
		},
		"Realm": {
			"nobody is led to an internal server", chartserver.Manifest,
			chartserver.Answer(http.StatusUnauthorized, nil, "WWW-Authenticate", `Bearer realm="https://169.254.169.254/token",service="x"`),
			chartsource.ReasonUnavailable, "", "internal address",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := chartserver.StartRegistry(t, chartserver.Options{})
			push(t, registry, "plain", "1.0.0", plain)
			mend := registry.Break(test.kind, test.fault)
			w := newWorld(t, registry.Server)
			chart := ofRef(registry.Ref("plain", "1.0.0"))
			w.wantError(t, chart, loginFor(registry.Host()), test.wantError, test.code, test.text)
			mend()
			w.want(t, chart, loginFor(registry.Host()), plain)
			if t.Failed() {
				t.Log(test.reason)
			}
		})
	}
}
