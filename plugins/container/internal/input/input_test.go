package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	finder "github.com/pergola-deploy/pergola/plugins/container/internal/components"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
)

// TestTargetFile: images of Landscaper's users read this file. The content is a text in it.
// Rule (container.md#contract-with-the-image): The Target is passed on with its resolved content.
func TestTargetFile(t *testing.T) {
	t.Parallel()
	const head = `{"target":{"kind":"Target","apiVersion":"landscaper.gardener.cloud/v1alpha1","metadata":`
	for want, target := range map[string]sdk.Target{
		head + `{"name":"cluster","namespace":"team","labels":{"a":"b"},"annotations":{"c":"d"}},` +
			`"spec":{"type":"landscaper.gardener.cloud/kubernetes-cluster"}},` +
			`"content":"{\"kubeconfig\":\"apiVersion: v1\\n\"}"}`: {
			Name: "cluster", Type: landscaper.KubernetesClusterTargetType, Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"c": "d"}, Content: []byte(`{"kubeconfig":"apiVersion: v1\n"}`),
		},
		head + `{"name":"other","namespace":"team"},"spec":{"type":"example.org/x"}},"content":""}`: {
			Name: "other", Type: "example.org/x",
		},
	} {
		found, err := targetFile("team", &target)
		if diff := cmp.Diff(want, string(found)); err != nil || diff != "" {
			t.Errorf("error %v, -want +got:\n%s", err, diff)
		}
	}
}

// blueprint is a reference to a blueprint.
var blueprint = &v1alpha1.Blueprint{Reference: &v1alpha1.BlueprintReference{ResourceName: "shop"}}

// TestNamesOfResolvers: a resolver's files may come from a repository, and stay in the directory of the blueprint, each
// with the only way to write its path.
// Rule (container.md#resolvers): Files of a resolver stay in the directory of the blueprint.
func TestNamesOfResolvers(t *testing.T) {
	t.Parallel()
	find := func(name string) (map[string][]byte, error) {
		resolver := func(context.Context, *content.ResolveRequest) (*content.Resolved, error) {
			return &content.Resolved{Files: map[string][]byte{"first": nil, name: []byte("text")}}, nil
		}
		source := Source{Resolver: content.ResolverFunc(resolver)}
		return source.Files(t.Context(), &sdk.Request{}, &v1alpha1.ProviderConfiguration{Blueprint: blueprint}, nil)
	}
	for _, name := range []string{"charts/shop.tgz", "..."} {
		if files, err := find(name); err != nil || string(files["content/"+name]) != "text" {
			t.Errorf("expected %q, but found %q and error %v", name, files, err)
		}
	}
	for _, name := range []string{
		"../imports/import.json", "../state/seed", "a/../../targets/x", "a/../b", "/etc/passwd", "a/", "a//b", ".", "",
		"a\xff",
	} {
		_, err := find(name)
		known, ok := errors.AsType[*sdk.Error](err)
		if !ok || known.Reason != "InputInvalid" ||
			!strings.Contains(err.Error(), fmt.Sprintf("the resolver has found a file %q,", name)) {
			t.Errorf("expected an error about %q, but found %v", name, err)
		}
	}
}

// TestInputOfComponents: the container gets the files of the blueprint and the list of descriptors where Landscaper
// puts them.
func TestInputOfComponents(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{
		Auth: chartserver.Basic, User: "somebody", Password: "hunter2",
	})
	place := components.Place{Registry: registry}
	place.Push(t, components.Version{Name: "example.com/shop", Version: "1.2.3", Resources: []components.Resource{{
		Name: "shop", Type: "blueprint", MediaType: components.BlueprintTar,
		Content: components.Blueprint(map[string]string{"a/b": "c"}),
	}}})
	repositoryContext, err := json.Marshal(place.Context())
	if err != nil {
		t.Fatal(err)
	}
	source := Source{Components: func() (*finder.Finder, error) {
		fetcher, err := fetch.New(fetch.Config{
			Dir: t.TempDir(), MaxBytes: 1 << 20, UserAgent: "test",
			Registries: []fetch.Registry{{Host: registry.Host(), CAData: registry.CA()}},
		})
		return finder.NewFinder(fetcher), err
	}}
	req := &sdk.Request{
		DeployItem: &landscaper.DeployItem{},
		Credentials: &sdk.Credentials{Registries: []sdk.RegistryCredentials{
			{Secret: "pull", DockerConfig: chartserver.DockerConfig(registry.Host(), "somebody", "hunter2")},
		}},
	}
	files, err := source.Files(t.Context(), req, &v1alpha1.ProviderConfiguration{
		Blueprint: blueprint,
		ComponentDescriptor: &v1alpha1.ComponentDescriptor{Reference: &v1alpha1.ComponentDescriptorReference{
			RepositoryContext: repositoryContext, ComponentName: "example.com/shop", Version: "1.2.3",
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Meta       struct{ SchemaVersion string }
		Components []struct{ Component struct{ Name string } }
	}
	if err := json.Unmarshal(files["component_descriptor.json"], &list); err != nil || list.Meta.SchemaVersion != "v2" ||
		len(list.Components) != 1 || list.Components[0].Component.Name != "example.com/shop" {
		t.Errorf("expected the list of one descriptor, but found %s and %v", files["component_descriptor.json"], err)
	}
	if string(files["content/a/b"]) != "c" || files["content/blueprint.yaml"] == nil {
		t.Errorf("expected the files of the blueprint, but found %v", files)
	}
}
