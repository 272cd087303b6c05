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

// TestTargetFile: images of Landscaper's users read this file.
// Rule (container.md#contract-with-the-image): The Target is passed on with its resolved content.
func TestTargetFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		target sdk.Target
		want   string
	}{
		"cluster": {
			reason: "Landscaper writes the content as a text",
			want: `{"target":{"kind":"Target","apiVersion":"landscaper.gardener.cloud/v1alpha1",` +
				`"metadata":{"name":"cluster","namespace":"team","labels":{"a":"b"},"annotations":{"c":"d"}},` +
				`"spec":{"type":"landscaper.gardener.cloud/kubernetes-cluster"}},` +
				`"content":"{\"kubeconfig\":\"apiVersion: v1\\n\"}"}`,
			target: sdk.Target{
				Name: "cluster", Type: landscaper.KubernetesClusterTargetType, Labels: map[string]string{"a": "b"},
				Annotations: map[string]string{"c": "d"},
				Content:     []byte(`{"kubeconfig":"apiVersion: v1\n"}`),
			},
		},
		"empty": {
			reason: "a Target may have no content",
			target: sdk.Target{Name: "other", Type: "example.org/x"},
			want: `{"target":{"kind":"Target","apiVersion":"landscaper.gardener.cloud/v1alpha1",` +
				`"metadata":{"name":"other","namespace":"team"},` +
				`"spec":{"type":"example.org/x"}},"content":""}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := targetFile("team", &c.target)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(found)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

// TestNamesOfResolvers: what a resolver finds may come from a repository, and stays in the directory of the blueprint.
// Rule (container.md#resolvers): Files of a resolver stay in the directory of the blueprint.
func TestNamesOfResolvers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		wrong  bool
	}{
		"charts/shop.tgz":        {reason: "the path of a file"},
		"...":                    {reason: "Linux takes it"},
		"../imports/import.json": {reason: "it would take the place of the imports", wrong: true},
		"../state/seed":          {reason: "the state is the image's", wrong: true},
		"a/../../targets/x":      {reason: "it leads there as well", wrong: true},
		"a/../b":                 {reason: "it may be the name of another file", wrong: true},
		"/etc/passwd":            {reason: "it is elsewhere", wrong: true},
		"a/":                     {reason: "it is a directory", wrong: true},
		"a//b":                   {reason: "there is one way to write it", wrong: true},
		".":                      {reason: "it is the directory itself", wrong: true},
		"":                       {reason: "a file has a name", wrong: true},
		"a\xff":                  {reason: "it is no text", wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resolver := func(context.Context, *content.ResolveRequest) (*content.Resolved, error) {
				return &content.Resolved{Files: map[string][]byte{"first": nil, name: []byte("text")}}, nil
			}
			source := Source{Resolver: content.ResolverFunc(resolver)}
			files, err := source.Files(t.Context(), &sdk.Request{}, &v1alpha1.ProviderConfiguration{
				Blueprint: &v1alpha1.Blueprint{Reference: &v1alpha1.BlueprintReference{ResourceName: "shop"}},
			}, nil)
			var known *sdk.Error
			switch {
			case !c.wrong && (err != nil || string(files["content/"+name]) != "text"):
				t.Errorf("%s: expected the file, but found %q and error %v", c.reason, files, err)
			case c.wrong &&
				(!errors.As(err, &known) || known.Reason != "InputInvalid" || !strings.Contains(err.Error(), fmt.Sprintf("the "+
					"resolver has found a file %q,", name))):
				t.Errorf("%s: expected an error about the file, but found %v", c.reason, err)
			}
		})
	}
}

// TestInputOfComponents: the container gets the files of the blueprint and the list of descriptors where Landscaper
// puts
// them.
func TestInputOfComponents(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{
		Auth: chartserver.Basic, User: "somebody", Password: "hunter2",
	})
	place := components.Place{Registry: registry}
	place.Push(t, components.Version{Name: "example.com/shop", Version: "1.2.3", Resources: []components.Resource{{
		Name: "shop", Type: "blueprint", Content: components.Blueprint(map[string]string{
			"a/b": "c",
		}), MediaType: components.BlueprintTar,
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
		Blueprint: &v1alpha1.Blueprint{Reference: &v1alpha1.BlueprintReference{ResourceName: "shop"}},
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
