package input

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRegistryOf(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"alpine": "docker.io", "alpine:3": "docker.io", "alpine:5000": "docker.io", "team/app": "docker.io",
		"team/app:1.2":             "docker.io",
		"docker.io/library/alpine": "docker.io", "index.docker.io/library/alpine": "docker.io", "": "docker.io",
		"registry.example.org/app":             "registry.example.org",
		"registry.example.org:5000/team/app:1": "registry.example.org:5000",
		"localhost/app":                        "localhost",
		"localhost:5000/app@sha256:00":         "localhost:5000", "host:80/app": "host:80",
		"[::1]:5000/app": "[::1]:5000", "team/registry.example.org/app": "docker.io",
	} {
		if got := registryOf(image); got != want {
			t.Errorf("%q: expected %q, but found %q", image, want, got)
		}
	}
}

func TestServes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, registry string
		servers, others  []string
	}{
		"Docker": {
			reason: "it has several names", registry: "docker.io",
			servers: []string{
				"docker.io", "https://index.docker.io/v1/", "index.docker.io", "registry-1.docker.io", "https://docker.io",
			},
			others: []string{
				"docker.io.example.org", "https://example.org/docker.io", "evildocker.io", "example.org", "", "*", "*.io",
				"localhost",
			},
		},
		"host": {
			reason: "schemes and paths are not part of it", registry: "registry.example.org",
			servers: []string{
				"registry.example.org", "https://registry.example.org", "http://registry.example.org/v2/",
				"registry.example.org/team",
			},
			others: []string{
				"example.org", "other.registry.example.org", "registry.example.org.evil.com", "registry.example.com",
				"registry.example.org:5000",
				"https://evil.com/registry.example.org", "https://user@registry.example.org", "docker.io", "", "registry",
				"xregistry.example.org",
			},
		},
		"port": {
			reason: "another port is another registry", registry: "localhost:5000",
			servers: []string{"localhost:5000", "http://localhost:5000", "localhost:5000/team"},
			others:  []string{"localhost", "localhost:5001", "localhost:50000", "127.0.0.1:5000", "docker.io"},
		},
		"IPv6": {
			reason: "brackets are no pattern here", registry: "[::1]:5000", servers: []string{
				"[::1]:5000", "https://[::1]:5000/v2/",
			}, others: []string{"[::2]:5000", ":"},
		},
		"patterns": {
			reason: "each star is for one part of a name, as Kubernetes has it", registry: "a.registry.example.org",
			servers: []string{
				"*.registry.example.org", "https://*.registry.example.org/v1/", "*.*.example.org", "?.registry.example.org",
				"[ab].reg*.example.org",
			},
			others: []string{
				"*", "*.org", "*.example.org", "*.registry.example.com", "?.example.org", "[bc].registry.example.org",
				"[a.registry.example.org", "*.a.registry.example.org",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, server := range c.servers {
				if !serves(server, c.registry) {
					t.Errorf("%s: expected %q to serve %s", c.reason, server, c.registry)
				}
			}
			for _, server := range c.others {
				if serves(server, c.registry) {
					t.Errorf("%s: expected %q not to serve %s", c.reason, server, c.registry)
				}
			}
		})
	}
}

// TestAddCredentials: a Pod gets the credentials for its own image, and those that are named first count.
// Rule (container.md#provider-configuration): A Pod gets only credentials for the registry of its image.
func TestAddCredentials(t *testing.T) {
	t.Parallel()
	const all = `{"auths":{"https://index.docker.io/v1/":{"auth":"aHVi"},"a.example.org":{"auth":"YQ=="},
		"b.example.org":{"auth":"Yg=="},
		"*.example.org":{"auth":"Kg=="}},"credsStore":"osxkeychain","HttpHeaders":{"X":"y"}}`
	for name, c := range map[string]struct {
		reason, image string
		documents     []string
		want          map[string]string
	}{
		"Docker": {
			reason: "others learn nothing of other registries", image: "alpine:3", documents: []string{all},
			want: map[string]string{"https://index.docker.io/v1/": `{"auth":"aHVi"}`},
		},
		"host": {
			reason: "Kubernetes chooses among those that fit", image: "a.example.org/app", documents: []string{all},
			want: map[string]string{"a.example.org": `{"auth":"YQ=="}`, "*.example.org": `{"auth":"Kg=="}`},
		},
		"others": {reason: "none are none", image: "registry.example.com/app", documents: []string{all}},
		"first": {
			reason: "what the deploy item names comes before what its Context names", image: "a.example.org/app",
			documents: []string{
				`{"auths":{"a.example.org":{"auth":"MQ=="}}}`,
				`{"auths":{"a.example.org":{"auth":"Mg=="},"a.example.org/team":{"auth":"Mw=="}}}`,
			},
			want: map[string]string{"a.example.org": `{"auth":"MQ=="}`, "a.example.org/team": `{"auth":"Mw=="}`},
		},
		"what cannot be read": {
			reason: "it was reported by whoever has read it", image: "alpine",
			documents: []string{"", "{", "[]", `{"auths":null}`, `{"auths":[]}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged := dockerConfig{Auths: map[string]json.RawMessage{}}
			for _, document := range c.documents {
				merged.add([]byte(document), c.image)
			}
			found := map[string]string{}
			for server, auth := range merged.Auths {
				found[server] = string(auth)
			}
			if c.want == nil {
				c.want = map[string]string{}
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}
