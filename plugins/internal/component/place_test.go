package component_test

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/test/cases"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/place.yaml", func(t *testing.T, c struct {
		Context json.RawMessage
		Want    component.Place
		Says    string
	},
	) {
		found, err := component.ParsePlace(c.Context)
		check(t, c.Want, found, err, c.Says)
	})
	for _, name := range []string{"OCIRegistry", "ociRegistry", "oci", "OCI", "OCIRepository"} {
		for _, version := range []string{"", "/v1"} {
			found, err := component.ParsePlace(object{"type": name + version, "baseUrl": "reg.example"}.json(t))
			check(t, component.Place{Host: "reg.example"}, found, err, "")
		}
	}
}

func TestRepositoryAndTag(t *testing.T) {
	t.Parallel()
	for want, place := range map[string]component.Place{
		"component-descriptors/example.com/shop":                             {},
		"a/b/component-descriptors/example.com/shop":                         {Prefix: "a/b"},
		"25af21ce5c111abf3df650d52b1fd2c8bdc91436c390a8033a15647ee2946ddf":   {HashedNames: true},
		"a/25af21ce5c111abf3df650d52b1fd2c8bdc91436c390a8033a15647ee2946ddf": {Prefix: "a", HashedNames: true},
	} {
		check(t, want, place.Repository(shop), nil, "")
	}
	for version, want := range map[string]string{
		"1.0.0+abc": "1.0.0.build-abc", "1.0.0.build-abc": "1.0.0.build-abc", "v1.2": "v1.2",
	} {
		check(t, want, component.TagOf(version), nil, "")
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	resolvers, err := os.ReadFile("testdata/resolvers.yaml")
	must(t, err)
	cases.Run(t, "testdata/places.yaml", func(t *testing.T, c struct {
		Context, Config, Component, Version string
		Want, Ignored                       []string // the hosts and prefixes of places, and texts of warnings
		Says                                string
	},
	) {
		var ignored, texts []string
		places, err := component.PlacesOf([]byte(c.Context), &sdk.OCMConfig{Content: []byte(c.Config)}, func(_, text string) {
			ignored = append(ignored, text)
		})
		if err == nil {
			var found []component.Place
			found, err = places.For(cmp.Or(c.Component, shop), cmp.Or(c.Version, version))
			for _, place := range found {
				texts = append(texts, place.String())
			}
		}
		check(t, c.Want, texts, err, c.Says)
		check(t, c.Ignored, ignored, nil, "")
	}, "$RESOLVERS", string(resolvers), "$CONTEXT", `{"type": "OCIRegistry", "baseUrl": "context.example"}`,
		"$MANY", strings.Join(numbered(21, "{repository: {type: OCIRegistry, baseUrl: r%d.example}}"), ", "))
}
