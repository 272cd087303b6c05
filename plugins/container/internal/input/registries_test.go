package input

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRegistryOf(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"": "docker.io", "alpine": "docker.io", "alpine:3": "docker.io", "alpine:5000": "docker.io",
		"team/app": "docker.io", "team/app:1.2": "docker.io", "team/registry.example.org/app": "docker.io",
		"docker.io/library/alpine": "docker.io", "index.docker.io/library/alpine": "docker.io",
		"registry.example.org/app":             "registry.example.org",
		"registry.example.org:5000/team/app:1": "registry.example.org:5000",
		"localhost/app":                        "localhost", "localhost:5000/app@sha256:00": "localhost:5000",
		"host:80/app": "host:80", "[::1]:5000/app": "[::1]:5000",
	} {
		if got := registryOf(image); got != want {
			t.Errorf("%q: expected %q, but found %q", image, want, got)
		}
	}
}

// Docker's registry has several names. A star is for one part of a name, as Kubernetes has it.
func TestServes(t *testing.T) {
	t.Parallel()
	for registry, c := range map[string]struct{ servers, others string }{
		"docker.io": {
			"docker.io https://index.docker.io/v1/ index.docker.io registry-1.docker.io https://docker.io",
			"docker.io.example.org https://example.org/docker.io evildocker.io example.org * *.io localhost",
		},
		"registry.example.org": {
			"registry.example.org https://registry.example.org http://registry.example.org/v2/ registry.example.org/team",
			"example.org other.registry.example.org registry.example.org.evil.com registry.example.com " +
				"registry.example.org:5000 https://evil.com/registry.example.org https://user@registry.example.org " +
				"docker.io registry xregistry.example.org",
		},
		"localhost:5000": {
			"localhost:5000 http://localhost:5000 localhost:5000/team",
			"localhost localhost:5001 localhost:50000 127.0.0.1:5000 docker.io",
		},
		"[::1]:5000": {"[::1]:5000 https://[::1]:5000/v2/", "[::2]:5000 :"},
		"a.registry.example.org": {
			"*.registry.example.org https://*.registry.example.org/v1/ *.*.example.org ?.registry.example.org " +
				"[ab].reg*.example.org",
			"* *.org *.example.org *.registry.example.com ?.example.org [bc].registry.example.org " +
				"[a.registry.example.org *.a.registry.example.org",
		},
	} {
		for _, server := range strings.Fields(c.servers) {
			if !serves(server, registry) {
				t.Errorf("expected %q to serve %s", server, registry)
			}
		}
		for _, server := range append(strings.Fields(c.others), "") {
			if serves(server, registry) {
				t.Errorf("expected %q not to serve %s", server, registry)
			}
		}
	}
}

// TestAddCredentials: a Pod gets the credentials for its own image, and those that are named first count, so those of
// the deploy item before those of its Context.
// Rule (container.md#provider-configuration): A Pod gets only credentials for the registry of its image.
func TestAddCredentials(t *testing.T) {
	t.Parallel()
	const all = `{"auths":{"https://index.docker.io/v1/":{"auth":"aHVi"},"a.example.org":{"auth":"YQ=="},
		"b.example.org":{"auth":"Yg=="},
		"*.example.org":{"auth":"Kg=="}},"credsStore":"osxkeychain","HttpHeaders":{"X":"y"}}`
	for name, c := range map[string]struct {
		image     string
		documents []string
		want      string
	}{
		"Docker": {"alpine:3", []string{all}, `{"https://index.docker.io/v1/":{"auth":"aHVi"}}`},
		// Kubernetes chooses among those that fit.
		"host":   {"a.example.org/app", []string{all}, `{"*.example.org":{"auth":"Kg=="},"a.example.org":{"auth":"YQ=="}}`},
		"others": {"registry.example.com/app", []string{all}, `{}`},
		"first": {"a.example.org/app", []string{
			`{"auths":{"a.example.org":{"auth":"MQ=="}}}`,
			`{"auths":{"a.example.org":{"auth":"Mg=="},"a.example.org/team":{"auth":"Mw=="}}}`,
		}, `{"a.example.org":{"auth":"MQ=="},"a.example.org/team":{"auth":"Mw=="}}`},
		// Its reader has reported it.
		"what cannot be read": {"alpine", []string{"", "{", "[]", `{"auths":null}`, `{"auths":[]}`}, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged := dockerConfig{Auths: map[string]json.RawMessage{}}
			for _, document := range c.documents {
				merged.add([]byte(document), c.image)
			}
			found, err := json.Marshal(merged.Auths)
			if diff := cmp.Diff(c.want, string(found)); err != nil || diff != "" {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}
