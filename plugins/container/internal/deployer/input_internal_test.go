package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
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
			reason: "Landscaper writes the content as a text", want: `{"target":{"kind":"Target","apiVersion":"landscaper.gardener.cloud/v1alpha1",` +
				`"metadata":{"name":"cluster","namespace":"team","labels":{"a":"b"},"annotations":{"c":"d"}},` +
				`"spec":{"type":"landscaper.gardener.cloud/kubernetes-cluster"}},"content":"{\"kubeconfig\":\"apiVersion: v1\\n\"}"}`,
			target: sdk.Target{
				Name: "cluster", Type: landscaper.KubernetesClusterTargetType, Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
				Content: []byte(`{"kubeconfig":"apiVersion: v1\n"}`),
			},
		},
		"empty": {
			reason: "a Target may have no content",
			target: sdk.Target{Name: "other", Type: "example.org/x"},
			want: `{"target":{"kind":"Target","apiVersion":"landscaper.gardener.cloud/v1alpha1","metadata":{"name":"other","namespace":"team"},` +
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
			j := &podJob{deployer: &Deployer{options: Options{Resolver: content.ResolverFunc(resolver)}}, request: &sdk.Request{}}
			files, err := j.input(t.Context(), &config{ProviderConfiguration: &v1alpha1.ProviderConfiguration{
				Blueprint: &v1alpha1.Blueprint{Reference: &v1alpha1.BlueprintReference{ResourceName: "shop"}},
			}})
			var known *sdk.Error
			switch {
			case !c.wrong && (err != nil || string(files["content/"+name]) != "text"):
				t.Errorf("%s: expected the file, but found %q and error %v", c.reason, files, err)
			case c.wrong && (!errors.As(err, &known) || known.Reason != "InputInvalid" || !strings.Contains(err.Error(), fmt.Sprintf("the resolver has found a file %q,", name))):
				t.Errorf("%s: expected an error about the file, but found %v", c.reason, err)
			}
		})
	}
}

// TestGiven: what stands in what a container was given is hidden wherever it stands.
func TestGiven(t *testing.T) {
	t.Parallel()
	kubeconfig := "users:\n- name: admin\n  user: {token: hunter22}\n"
	in := func(field, text string) string {
		document, err := json.Marshal(map[string]string{field: text})
		if err != nil {
			t.Fatal(err)
		}
		return string(document)
	}
	for name, c := range map[string]struct{ reason, text, said, want string }{
		"text":           {reason: "it may be no document", text: "hunter22: {", said: "is hunter22: {", want: "is ***"},
		"JSON":           {reason: "as imports are", text: `{"a":[{"b":"hunter22"}]}`, said: "is hunter22", want: "is ***"},
		"YAML":           {reason: "as the content of a Target may be", text: kubeconfig, said: "is hunter22", want: "is ***"},
		"text in text":   {reason: "a kubeconfig in a Target", text: in("content", in("kubeconfig", kubeconfig)), said: "is hunter22", want: "is ***"},
		"list in text":   {reason: "a list is a document, too", text: in("users", `["hunter22"]`), said: "is hunter22", want: "is ***"},
		"JSON in YAML":   {reason: "and the other way round", text: "a: '{\"b\":\"hunter22\"}'\n", said: "is hunter22", want: "is ***"},
		"slashes":        {reason: "some JSON is no YAML for the library", text: `{"a":"b\/hunter22","c":"\ud83d\ude00"}`, said: "is b/hunter22", want: "is ***"},
		"long numbers":   {reason: "no digit is lost", text: `{"a":90071992547409930001}`, said: "is 90071992547409930001", want: "is ***"},
		"numbers":        {reason: "in YAML as well", text: "a: 9007199254740993\n", said: "is 9007199254740993", want: "is ***"},
		"other spelling": {reason: "a program prints what is meant", text: "a: 1_234_567\n", said: "is 1234567", want: "is ***"},
		"short numbers":  {reason: "a port is of use", text: "a: 65535\nb: .inf\nc: true\nd: ~\n", said: "port 65535", want: "port 65535"},
		"dates":          {reason: "they are texts", text: "a: 2026-05-04\n", said: "is 2026-05-04", want: "is ***"},
		"binary":         {reason: "a program prints what is meant", text: "a: !!binary aHVudGVyMjI=\n", said: "is hunter22", want: "is ***"},
		"twice":          {reason: "either may be told", text: "a: hunter22\na: hunter33\n", said: "hunter22 or hunter33", want: "*** or ***"},
		"names":          {reason: "a message is of use with names of fields", text: "database: database\n", said: "no database", want: "no database"},
		"names in text":  {reason: "and so is one with those", text: in("a", "database: database\n"), said: "no database", want: "no database"},
		"aliases":        {reason: "what is repeated is hidden where it stands", text: "a: &a [hunter22]\nb: [" + strings.Repeat("*a,", 100_000) + "]\n", said: "is hunter22", want: "is ***"},
		"name by alias":  {reason: "a value is no name for being repeated", text: "a: &a hunter22\n*a : b\n", said: "is hunter22", want: "is ***"},
		"deep":           {reason: "whatever is around it", text: strings.Repeat("[", 9000) + `"hunter22"` + strings.Repeat("]", 9000), said: "is hunter22", want: "is ***"},
		"deep YAML":      {reason: "so it is in YAML", text: "- a:\n    " + strings.Repeat("[", 9000) + `hunter22` + strings.Repeat("]", 9000), said: "is hunter22", want: "is ***"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hidden := redact.New(nil)
			given{learn: hidden.Learn, publish: hidden.Publish}.addText(c.text, 0)
			if found := hidden.Hide(c.said); found != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, found)
			}
		})
	}
}

// TestGivenDoesNotGrow: what is kept is about as large as what was given, however it is nested.
func TestGivenDoesNotGrow(t *testing.T) {
	t.Parallel()
	texts := "hunter22"
	for range 60 {
		texts = "a: |\n " + strings.ReplaceAll(texts, "\n", "\n ") + "\nb: x\n"
	}
	for name, c := range map[string]struct{ reason, text string }{
		"deep":    {reason: "no part is kept with each of those around it", text: strings.Repeat(`{"a":[`, 2000) + `"` + strings.Repeat("x", 100<<10) + `"` + strings.Repeat("]}", 2000)},
		"aliases": {reason: "nothing is repeated", text: "a: &a " + strings.Repeat("x", 64<<10) + "\nb: [" + strings.Repeat("*a,", 9000) + "]\n"},
		"texts":   {reason: "some levels are looked into, not all", text: texts},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size := 0
			learn := func(value any) { size += len(fmt.Sprint(value)) }
			given{learn: learn, publish: func(...string) {}}.addText(c.text, 0)
			if size > 10*len(c.text) {
				t.Errorf("%s: expected not more than ten times %d bytes, but found %d", c.reason, len(c.text), size)
			}
		})
	}
}

// TestInputOfComponents: the container gets the files of the blueprint and the list of descriptors where Landscaper puts
// them.
func TestInputOfComponents(t *testing.T) {
	t.Parallel()
	registry := chartserver.StartRegistry(t, chartserver.Options{Auth: chartserver.Basic, User: "somebody", Password: "hunter2"})
	place := components.Place{Registry: registry}
	place.Push(t, components.Version{Name: "example.com/shop", Version: "1.2.3", Resources: []components.Resource{{
		Name: "shop", Type: "blueprint", Content: components.Blueprint(map[string]string{"a/b": "c"}), MediaType: components.BlueprintTar,
	}}})
	d := New(Options{CacheDir: t.TempDir(), UserAgent: "test"})
	s := defaultSettings()
	s.registries = []fetch.Registry{{Host: registry.Host(), CAData: registry.CA()}}
	d.use(s)
	repositoryContext, err := json.Marshal(place.Context())
	if err != nil {
		t.Fatal(err)
	}
	j := &podJob{deployer: d, request: &sdk.Request{
		DeployItem: &landscaper.DeployItem{},
		Credentials: &sdk.Credentials{Registries: []sdk.RegistryCredentials{
			{Secret: "pull", DockerConfig: chartserver.DockerConfig(registry.Host(), "somebody", "hunter2")},
		}},
	}}
	files, err := j.input(t.Context(), &config{ProviderConfiguration: &v1alpha1.ProviderConfiguration{
		Blueprint: &v1alpha1.Blueprint{Reference: &v1alpha1.BlueprintReference{ResourceName: "shop"}},
		ComponentDescriptor: &v1alpha1.ComponentDescriptor{Reference: &v1alpha1.ComponentDescriptorReference{
			RepositoryContext: repositoryContext, ComponentName: "example.com/shop", Version: "1.2.3",
		}},
	}})
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
