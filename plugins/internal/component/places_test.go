package component_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const inContext = `{"type": "OCIRegistry", "baseUrl": "context.example"}`

// resolvers are entries of a configuration.
const resolvers = `
type: generic.config.ocm.software/v1
configurations:
- type: resolvers.config.ocm.software/v1alpha1
  resolvers:
  - {repository: {type: OCIRepository/v1, baseUrl: last.example}, componentNamePattern: "example.com/*"}
  - {repository: {type: OCIRepository/v1, baseUrl: old.example}, componentNamePattern: "*.com/{shop,store}", versionConstraint: "< 1.0.0"}
- type: ocm.config.ocm.software
  aliases: {mine: {type: OCIRegistry, baseUrl: alias.example}}
  resolvers:
  - {repository: {type: OCIRegistry, baseUrl: all.example}}
  - {repository: {type: OCIRegistry, baseUrl: one.example}, prefix: example.com}
  - {repository: {type: OCIRegistry, baseUrl: two.example}, prefix: example.com/parts/}
  - {repository: {type: OCIRegistry, baseUrl: two.example}, prefix: example.com/parts}
  - {repository: {type: OCIRegistry, baseUrl: same.example}, prefix: example.com/parts}
  - {repository: {type: OCIRegistry, baseUrl: first.example, subPath: a}, prefix: example.com/parts, priority: 20}
  - {repository: {type: OCIRegistry, baseUrl: late.example}, prefix: example.com/parts/screws, priority: -1}
- type: ocm.config.ocm.software/v1
  resolvers:
  - {repository: {type: local, filePath: /etc}, prefix: example.com/files}
`

func TestPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		context, config, component, version string
		want                                []string
	}{
		"context":           {context: inContext, component: shop, want: []string{"context.example"}},
		"order":             {context: inContext, config: resolvers, component: "example.com/parts/screws", want: []string{"context.example", "first.example/a", "two.example", "same.example", "one.example", "all.example", "late.example", "last.example"}},
		"whole segments":    {config: resolvers, component: "example.com/partsandmore", want: []string{"one.example", "all.example", "last.example"}},
		"no prefix":         {config: resolvers, component: "example.org/x", want: []string{"all.example"}},
		"pattern":           {config: resolvers, component: shop, version: "0.9.0", want: []string{"one.example", "all.example", "last.example", "old.example"}},
		"version as tag":    {config: resolvers, component: shop, version: "0.9.0.build-a", want: []string{"one.example", "all.example", "last.example", "old.example"}},
		"other version":     {config: resolvers, component: shop, version: "1.0.0", want: []string{"one.example", "all.example", "last.example"}},
		"one entry":         {config: `{type: ocm.config.ocm.software/v1, resolvers: [{repository: {type: oci, baseUrl: a.example}, prefix: example.com/shop}]}`, component: shop, want: []string{"a.example"}},
		"empty config":      {context: inContext, config: "\n", component: shop, want: []string{"context.example"}},
		"each place once":   {context: inContext, config: `{type: resolvers.config.ocm.software, resolvers: [{repository: ` + inContext + `}]}`, component: shop, want: []string{"context.example"}},
		"all may be meant":  {config: `{type: resolvers.config.ocm.software, resolvers: [{repository: ` + inContext + `}]}`, component: shop, want: []string{"context.example"}},
		"classes":           {config: `{type: resolvers.config.ocm.software, resolvers: [{repository: ` + inContext + `, componentNamePattern: "example.com/[!ab]?o[np]"}]}`, component: shop, want: []string{"context.example"}},
		"stars and slashes": {config: `{type: resolvers.config.ocm.software, resolvers: [{repository: ` + inContext + `, componentNamePattern: "*p"}]}`, component: shop, want: []string{"context.example"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			places, ignored, err := placesOf([]byte(c.context), []byte(c.config))
			if err != nil || len(ignored) > 0 {
				t.Fatalf("found %q and error %v", ignored, err)
			}
			if c.version == "" {
				c.version = version
			}
			found, err := places.For(c.component, c.version)
			var texts []string
			for _, place := range found {
				texts = append(texts, place.String())
			}
			if diff := cmp.Diff(c.want, texts); err != nil || diff != "" {
				t.Errorf("found error %v and -want +found:\n%s", err, diff)
			}
		})
	}
}

func TestPlacesForNone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ config, component, says string }{
		"nothing":       {"", shop, "nothing says where component example.com/shop 1.2.3 is"},
		"no match":      {`{type: resolvers.config.ocm.software, resolvers: [{repository: ` + inContext + `, componentNamePattern: "example.com/[!s]hop"}]}`, shop, "nothing says where"},
		"dots are dots": {`{type: resolvers.config.ocm.software, resolvers: [{repository: ` + inContext + `, componentNamePattern: "example?com.shop"}]}`, shop, "nothing says where"},
		"no registry":   {resolvers, "example.com/files/x", "ocm.config.ocm.software/v1: resolvers[0]: the repository context has the type local"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			places, _, err := placesOf(nil, []byte(c.config))
			must(t, err)
			_, err = places.For(c.component, version)
			refused(t, err, c.says)
		})
	}
}

// TestPlacesIgnored: secrets do not belong into a ConfigMap.
func TestPlacesIgnored(t *testing.T) {
	t.Parallel()
	places, ignored, err := placesOf([]byte(inContext), []byte(`
type: generic.config.ocm.software
configurations:
- {type: credentials.config.ocm.software, consumers: [{credentials: [{properties: {password: hunter2}}]}]}
`))
	must(t, err)
	if diff := cmp.Diff([]string{"the credentials in the ConfigMap of the Context's ocmConfig are ignored, because secrets do not " +
		"belong into a ConfigMap; put them into a Secret of the Context's registryPullSecrets"}, ignored); diff != "" {
		t.Error(diff)
	}
	if found, err := places.For(shop, version); err != nil || len(found) != 1 {
		t.Errorf("expected the place of the Context, but found %v and error %v", found, err)
	}
}

func TestPlacesRefuses(t *testing.T) {
	t.Parallel()
	const globs = `{type: resolvers.config.ocm.software, resolvers: [{repository: ` + inContext
	for name, c := range map[string]struct{ context, config, says string }{
		"context":    {context: `{"type": "local"}`, says: "the repository context has the type local"},
		"no YAML":    {config: "a: [hunter2", says: "ocmConfig: the configuration cannot be read: it is no YAML"},
		"wrong type": {config: "configurations: hunter2", says: "its field configurations is of the wrong type"},
		"unknown":    {config: "{type: generic.config.ocm.software, configurations: [{type: ocm.config.ocm.software}, {type: a/v1}]}", says: `configurations[1]: the type "a/v1" is not supported`},
		"no type":    {config: "resolvers: []", says: `configurations[0]: the type "" is not supported`},
		"priority":   {config: "{type: ocm.config.ocm.software, resolvers: [{priority: high}]}", says: "its field resolvers.priority is of the wrong type"},
		"pattern":    {config: globs + `, componentNamePattern: "{a"}]}`, says: `resolvers[0]: the componentNamePattern "{a"`},
		"constraint": {config: globs + `, versionConstraint: "latest"}]}`, says: `the versionConstraint "latest" cannot be read`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := placesOf([]byte(c.context), []byte(c.config))
			refused(t, err, c.says)
		})
	}
}

// TestManyPlaces: each place costs requests.
func TestManyPlaces(t *testing.T) {
	t.Parallel()
	config := "type: ocm.config.ocm.software\nresolvers:\n"
	for n := range 21 {
		config += fmt.Sprintf("- {repository: {type: OCIRegistry, baseUrl: r%d.example}}\n", n)
	}
	places, _, err := placesOf(nil, []byte(config))
	must(t, err)
	_, err = places.For(shop, version)
	refused(t, err, "more than 20 places")
}
