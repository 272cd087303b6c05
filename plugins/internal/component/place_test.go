package component_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()
	at := func(host, prefix string) component.Place { return component.Place{Host: host, Prefix: prefix} }
	for name, c := range map[string]struct {
		context object
		want    component.Place
	}{
		"host":                 {object{"type": "OCIRegistry", "baseUrl": "reg.example"}, at("reg.example", "")},
		"port":                 {object{"type": "OCIRegistry", "baseUrl": "localhost:5000"}, at("localhost:5000", "")},
		"path":                 {object{"type": "OCIRegistry", "baseUrl": "reg.example/a/b"}, at("reg.example", "a/b")},
		"scheme and path":      {object{"type": "OCIRegistry", "baseUrl": "https://reg.example/a/b/"}, at("reg.example", "a/b")},
		"path and subPath":     {object{"type": "OCIRegistry", "baseUrl": "reg.example/a", "subPath": "b"}, at("reg.example", "a/b")},
		"all of them":          {object{"type": "OCIRegistry", "baseUrl": "https://reg.example/a", "subPath": "/b/"}, at("reg.example", "a/b")},
		"oci":                  {object{"type": "OCIRegistry", "baseUrl": "oci://reg.example"}, at("reg.example", "")},
		"letters":              {object{"type": "OCIRegistry", "baseUrl": "Reg.Example/A"}, at("reg.example", "a")},
		"http":                 {object{"type": "OCIRegistry", "baseUrl": "http://reg.example"}, component.Place{Host: "reg.example", WantsPlainHTTP: true}},
		"urlPath":              {object{"type": "OCIRegistry", "baseUrl": "reg.example", "componentNameMapping": "urlPath"}, at("reg.example", "")},
		"sha256-digest":        {object{"type": "OCIRegistry", "baseUrl": "reg.example", "componentNameMapping": "sha256-digest"}, component.Place{Host: "reg.example", HashedNames: true}},
		"fields of no meaning": {object{"type": "OCIRegistry", "baseUrl": "reg.example", "legacyTypes": true, "blobLimit": 1}, at("reg.example", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := component.ParsePlace(c.context.json(t))
			if diff := cmp.Diff(c.want, found); err != nil || diff != "" {
				t.Errorf("found error %v and -want +found:\n%s", err, diff)
			}
		})
	}
	for _, name := range []string{"OCIRegistry", "ociRegistry", "oci", "OCI", "OCIRepository"} {
		for _, version := range []string{"", "/v1"} {
			found, err := component.ParsePlace(object{"type": name + version, "baseUrl": "reg.example"}.json(t))
			if err != nil || found.Host != "reg.example" {
				t.Errorf("type %s%s: expected a place, but found %v and error %v", name, version, found, err)
			}
		}
	}
}

func TestParsePlaceRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		context object
		says    string
	}{
		"no type":         {object{"baseUrl": "reg.example"}, `has the type "", but expected that of a registry`},
		"unknown type":    {object{"type": "S3/v1"}, `has the type "S3/v1", but expected that of a registry`},
		"archive":         {object{"type": "CommonTransportFormat/v1", "filePath": "/etc"}, "has the type CommonTransportFormat, which reads files"},
		"local":           {object{"type": "local", "filePath": "/etc"}, "has the type local, which reads files"},
		"inline":          {object{"type": "inline/v1"}, "transfer the component to a registry and use OCIRegistry"},
		"no address":      {object{"type": "oci"}, "has no baseUrl"},
		"address of none": {object{"type": "oci", "baseUrl": "https:///a"}, `has the baseUrl "https:///a"`},
		"other scheme":    {object{"type": "oci", "baseUrl": "file://a/b"}, `has the baseUrl "file://a/b"`},
		"query":           {object{"type": "oci", "baseUrl": "reg.example?a=b"}, "has the baseUrl"},
		"user":            {object{"type": "oci", "baseUrl": "https://me:hunter2@reg.example"}, "has a baseUrl with a user"},
		"path":            {object{"type": "oci", "baseUrl": "reg.example", "subPath": "../a"}, `leads to the path "../a"`},
		"mapping":         {object{"type": "oci", "baseUrl": "reg.example", "componentNameMapping": "flat"}, `has the componentNameMapping "flat"`},
		"wrong type":      {object{"type": "oci", "baseUrl": 7}, "its field baseUrl is of the type number, but expected a text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := component.ParsePlace(c.context.json(t))
			refused(t, err, c.says)
		})
	}
}

func TestRepository(t *testing.T) {
	t.Parallel()
	for want, place := range map[string]component.Place{
		"component-descriptors/example.com/shop":                             {},
		"a/b/component-descriptors/example.com/shop":                         {Prefix: "a/b"},
		"25af21ce5c111abf3df650d52b1fd2c8bdc91436c390a8033a15647ee2946ddf":   {HashedNames: true},
		"a/25af21ce5c111abf3df650d52b1fd2c8bdc91436c390a8033a15647ee2946ddf": {Prefix: "a", HashedNames: true},
	} {
		if found := place.Repository(shop); found != want {
			t.Errorf("%v: expected %s, but found %s", place, want, found)
		}
	}
}

func TestTagOf(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"1.0.0+abc": "1.0.0.build-abc", "1.0.0.build-abc": "1.0.0.build-abc", "v1.2": "v1.2"} {
		if found := component.TagOf(version); found != want {
			t.Errorf("%s: expected %s, but found %s", version, want, found)
		}
	}
}
