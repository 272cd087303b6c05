package components_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/container/content"
	"github.com/pergola-deploy/pergola/plugins/container/internal/components"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
	written "github.com/pergola-deploy/pergola/test/components"
)

const (
	shop     = "example.com/shop"
	store    = "example.com/store"
	version  = "1.2.3"
	user     = "somebody"
	password = "pa55-of-somebody"
)

// world has a registry with a login, and a finder that trusts it.
type world struct {
	written.Place

	finder   *components.Finder
	warnings []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, chartserver.StartRegistry(t, withLogin))
}

var withLogin = chartserver.Options{Auth: chartserver.Basic, User: user, Password: password}

func newWorldAt(t *testing.T, r *chartserver.Registry) *world {
	t.Helper()
	fetcher, err := fetch.New(fetch.Config{
		Dir: t.TempDir(), UserAgent: "test", Registries: []fetch.Registry{{Host: r.Host(), CAData: r.CA()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fetcher.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{Place: written.Place{Registry: r}, finder: components.NewFinder(fetcher)}
}

// find finds the blueprint, or only descriptors without one. Components are where inContext says.
func (w *world) find(
	t *testing.T, blueprint string, descriptor *containerv1alpha1.ComponentDescriptor, inContext map[string]any,
) (*content.Resolved, error) {
	t.Helper()
	req := &components.Request{
		Descriptor: descriptor, Context: &v1alpha1.Context{},
		Credentials: &sdk.Credentials{Registries: []sdk.RegistryCredentials{{
			Secret: "pull", DockerConfig: chartserver.DockerConfig(w.Registry.Host(), user, password),
		}}},
		Warning: func(reason, text string) { w.warnings = append(w.warnings, reason+": "+text) },
	}
	if blueprint != "" {
		req.Blueprint = &containerv1alpha1.BlueprintReference{ResourceName: blueprint}
	}
	if inContext != nil {
		req.Context.RepositoryContext = &runtime.RawExtension{Raw: toJSON(t, inContext)}
	}
	found, err := w.finder.Find(t.Context(), req)
	if err != nil && strings.Contains(err.Error(), password) {
		t.Errorf("a text for people has a secret in it: %v", err)
	}
	return found, err
}

func toJSON(t *testing.T, value any) []byte {
	t.Helper()
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// refTo is a reference to the shop, with a repository context; nil for none.
func refTo(t *testing.T, context map[string]any) *containerv1alpha1.ComponentDescriptor {
	t.Helper()
	ref := &containerv1alpha1.ComponentDescriptorReference{ComponentName: shop, Version: version}
	if context != nil {
		ref.RepositoryContext = toJSON(t, context)
	}
	return &containerv1alpha1.ComponentDescriptor{Reference: ref}
}

// inlineOf is the descriptor of a version in the item.
func inlineOf(t *testing.T, v written.Version) *containerv1alpha1.ComponentDescriptor {
	t.Helper()
	return &containerv1alpha1.ComponentDescriptor{Inline: toJSON(t, v.Descriptor())}
}

// names are the components of a list of descriptors in the form of schema v2.
func names(t *testing.T, list []json.RawMessage) (found []string) {
	t.Helper()
	for _, document := range list {
		var d struct {
			Meta      struct{ SchemaVersion string }
			Component struct{ Name, Version string }
		}
		if err := json.Unmarshal(document, &d); err != nil || d.Meta.SchemaVersion != "v2" {
			t.Errorf("expected schema v2, but found %s and %v", document, err)
		}
		found = append(found, d.Component.Name+" "+d.Component.Version)
	}
	return found
}

// isError fails unless an error has a reason, says something, and ends the job or not.
func isError(t *testing.T, err error, reason string, final bool, says ...string) {
	t.Helper()
	known, ok := errors.AsType[*sdk.Error](err)
	if !ok || known.Reason != reason || (len(sdk.Codes(err)) > 0) != final {
		t.Fatalf("expected an error with the reason %s, final %t, but found %#v: %v", reason, final, known, err)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("expected %q in the error, but found: %v", text, err)
		}
	}
}

var (
	files     = map[string]string{"charts/shop/values.yaml": "a: b"}
	blueprint = written.Blueprint(files)
)

// shopWith is the shop with a blueprint.
func shopWith(r written.Resource) written.Version {
	r.Name, r.Type = "blueprint", "landscaper.gardener.cloud/blueprint"
	return written.Version{Name: shop, Version: version, Resources: []written.Resource{r}}
}

// shopOf is the shop without resources.
func shopOf(references ...written.Reference) written.Version {
	return written.Version{Name: shop, Version: version, References: references}
}

// referenceTo has the descriptor with it if it is inline.
func referenceTo(name string, v written.Version, inline *written.Version) written.Reference {
	return written.Reference{Name: name, Component: v.Name, Version: v.Version, Inline: inline}
}

// at is the world with another place in its registry.
func (w *world) at(name string) *world {
	prefix := strings.NewReplacer(" ", "-", ",", "").Replace(name)
	return &world{Place: written.Place{Registry: w.Registry, Prefix: prefix}, finder: w.finder}
}

// TestBlueprints: a blueprint is found in each form.
// Rule (container.md#components): A blueprint of a component is found in each form.
func TestBlueprints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	written.PushArtifact(t, w.Registry, "blueprints/shop", "1", written.BlueprintTar, blueprint)
	for name, r := range map[string]written.Resource{
		"tar":           {Content: blueprint, MediaType: written.BlueprintTar},
		"compressed":    {Content: written.Gzip(blueprint), MediaType: written.BlueprintTarGzip},
		"old type":      {Content: blueprint, MediaType: "application/x-tar"},
		"artifact":      {Access: written.OCIArtifact(w.Registry.Ref("blueprints/shop", "1"))},
		"artifact set":  {Content: blueprint, MediaType: written.BlueprintTar, Stored: written.AsDots},
		"index variant": {Content: blueprint, MediaType: written.BlueprintTar, Stored: written.AsManifest},
	} {
		w := w.at(name)
		w.Push(t, shopWith(r))
		found, err := w.find(t, "blueprint", refTo(t, w.Context()), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if found.Files["blueprint.yaml"] == nil || len(found.Files) != 2 ||
			string(found.Files["charts/shop/values.yaml"]) != "a: b" {
			t.Errorf("%s: found the files %q", name, found.Files)
		}
		if got := names(t, found.ComponentDescriptors); !slices.Equal(got, []string{shop + " " + version}) {
			t.Errorf("%s: found the descriptors %q", name, got)
		}
	}
}

// TestDescriptors: the list has a component and all that it refers to, each once, wherever the item says that they are.
// Rule (container.md#components): A container gets the descriptors of a component and of all its references, each once.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leaf := written.Version{Name: "example.com/leaf", Version: "1.0.0", Schema: written.SchemaV3}
	again := referenceTo("again", shopOf(), nil) // a circle
	middle := written.Version{
		Name: store, Version: "2.0.0+x", References: []written.Reference{referenceTo("leaf", leaf, nil), again},
	}
	root := shopOf(referenceTo("store", middle, nil), referenceTo("leaf", leaf, nil))
	for _, v := range []written.Version{leaf, middle, root} {
		w.Push(t, v)
	}
	text := func(v written.Version) string { return string(toJSON(t, v.Descriptor())) }
	withContext := root
	withContext.RepositoryContexts = []map[string]any{{"type": "CommonTransportFormat", "filePath": "x"}, w.Context()}
	middleInline := middle
	middleInline.References = []written.Reference{referenceTo("leaf", leaf, &leaf)}
	labelled := shopOf(referenceTo("store", middle, &middleInline))
	tree := map[string]any{"type": "inline/v1", "compDescDirPath": "descriptors", "fileSystem": map[string]any{
		"descriptors": map[string]any{
			"a.yaml": text(root), "b": map[string]any{"b.yaml": text(middle)}, "c.yaml": text(leaf), "x": "text",
		},
	}}
	noVersion := &containerv1alpha1.ComponentDescriptor{
		Inline: []byte(`{"meta": {"schemaVersion": "v2"}, "component": {"name": "example.com/shop"}}`),
	}
	all := []string{"example.com/leaf 1.0.0", shop + " " + version, store + " 2.0.0+x"}
	for name, c := range map[string]struct {
		descriptor *containerv1alpha1.ComponentDescriptor
		inContext  map[string]any
		want       []string
		warning    string
	}{
		"reference":           {refTo(t, w.Context()), nil, all, ""},
		"reference, Context":  {refTo(t, nil), w.Context(), all, ""},
		"inline, own context": {inlineOf(t, withContext), nil, all, ""},
		"inline, Context":     {inlineOf(t, root), w.Context(), all, ""},
		"inline, labels":      {inlineOf(t, labelled), nil, all, ""},
		"inline, no version":  {noVersion, w.Context(), []string{shop + " "}, ""},
		"inline, nowhere": {
			inlineOf(t, root), nil, all[1:2], "ComponentsLeftOut: component descriptor of example.com/shop 1.2.3",
		},
		"repository in the item": {refTo(t, tree), nil, all, ""},
	} {
		w := &world{Place: w.Place, finder: w.finder}
		found, err := w.find(t, "", c.descriptor, c.inContext)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := slices.Sorted(slices.Values(names(t, found.ComponentDescriptors))); !slices.Equal(got, c.want) {
			t.Errorf("%s: expected %q, but found %q", name, c.want, got)
		}
		if told := strings.Join(w.warnings, "\n"); (told == "") != (c.warning == "") || !strings.HasPrefix(told, c.warning) {
			t.Errorf("%s: expected the warning %q, but found %q", name, c.warning, told)
		}
	}
}

// TestInlineBlueprints: content may be in the item, too.
func TestInlineBlueprints(t *testing.T) {
	t.Parallel()
	v := shopWith(written.Resource{Access: map[string]any{"type": "localFilesystemBlob", "fileName": "shop"}})
	context := map[string]any{
		"type": "inline", "fileSystem": map[string]any{"d.yaml": string(toJSON(t, v.Descriptor()))}, "blobDirPath": "/blobs",
		"blobFs": map[string]any{"blobs": map[string]any{"shop": map[string]any{
			"blueprint.yaml": "kind: Blueprint", "a": map[string]any{"b": "c"},
		}}},
	}
	found, err := newWorld(t).find(t, "blueprint", refTo(t, context), nil)
	if err != nil || string(found.Files["a/b"]) != "c" || len(found.Files) != 2 {
		t.Errorf("expected the files of the item, but found %v and %v", found, err)
	}
}

// TestFindRefuses: what cannot be right ends the job; what may heal by itself is retried.
// Rule (container.md#components): A wrong component or blueprint ends the job of its item; a missing one is retried.
func TestFindRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	many := shopOf()
	for i := range 1001 {
		leaf := written.Version{Name: "example.com/leaf", Version: fmt.Sprintf("1.0.%d", i)}
		many.References = append(many.References, referenceTo(fmt.Sprintf("ref-%d", i), leaf, &leaf))
	}
	blob := func(content []byte) written.Version {
		return shopWith(written.Resource{Content: content, MediaType: written.BlueprintTar})
	}
	chart := blob(blueprint)
	chart.Resources[0].Type = "helmChart"
	wrong := blob(blueprint)
	wrong.Resources[0].Digest = written.WrongDigest
	aliases := "x: &a " + strings.Repeat("y", 1000) + "\nz: [" + strings.Repeat("*a,", 3000) + "]"
	bomb := written.Gzip(written.Blueprint(map[string]string{"a": strings.Repeat("\x00", 33<<20)}))
	in := func(files map[string]any) *containerv1alpha1.ComponentDescriptor {
		return refTo(t, map[string]any{"type": "inline", "fileSystem": files})
	}
	type says = []string
	const (
		missing, invalid = "ComponentNotFound", "ComponentInvalid"
		noQuotes         = "meta: {schemaVersion: v2}\ncomponent: {name: example.com/shop, version: 1.0}"
	)
	toStore := []written.Reference{{Name: "store", Component: store, Version: "1.0.0"}}
	noFile := written.Blueprint(map[string]string{"../x": ""})
	noDescriptor := &containerv1alpha1.ComponentDescriptor{Inline: []byte(`{}`)}
	dots := &containerv1alpha1.ComponentDescriptor{
		Reference: &containerv1alpha1.ComponentDescriptorReference{ComponentName: "../x", Version: "1"},
	}
	fourAliases := in(map[string]any{"a.yaml": aliases, "b.yaml": aliases, "c.yaml": aliases, "d.yaml": aliases})
	asManifest := written.Resource{Content: blueprint, MediaType: written.BlueprintTar, Stored: written.AsManifest}
	for name, c := range map[string]struct {
		version    written.Version
		descriptor *containerv1alpha1.ComponentDescriptor
		reason     string
		says       says
	}{
		"no component":         {written.Version{}, nil, missing, says{shop, version, w.Registry.Host()}},
		"referenced, missing":  {shopOf(toStore...), nil, missing, says{store}},
		"no blueprint of name": {shopOf(), nil, invalid, says{`no resource "blueprint"`}},
		"chart as blueprint":   {chart, nil, invalid, says{`"helmChart"`}},
		"no tar":               {blob([]byte("text")), nil, invalid, says{"tar"}},
		"no blueprint.yaml":    {blob(noFile), nil, invalid, says{"../x"}},
		"unpacks to too much":  {blob(bomb), nil, invalid, says{"more bytes than the limit of 33554432"}},
		"wrong digest":         {wrong, nil, invalid, says{"digest"}},
		"too many references":  {many, nil, invalid, says{"more than 1000"}},
		"no descriptor":        {written.Version{}, noDescriptor, invalid, says{"schema"}},
		"bad name":             {written.Version{}, dots, invalid, says{"componentDescriptor.ref", `"../x"`}},
		"file": {
			written.Version{}, refTo(t, map[string]any{"type": "local", "filePath": "/etc"}), invalid, says{"local"},
		},
		"inline, not there": {
			written.Version{}, in(map[string]any{}), invalid, says{"add a file with its descriptor"},
		},
		"inline, not readable": {
			written.Version{}, in(map[string]any{"a.yaml": noQuotes}), invalid, says{`"a.yaml"`, "quotes"},
		},
		"inline, aliases": {written.Version{}, fourAliases, invalid, says{"more than 8388608 bytes"}},
		"local manifest, nowhere": {
			written.Version{}, inlineOf(t, shopWith(asManifest)), invalid, says{"nothing says where"},
		},
		"local blob, nowhere": {written.Version{}, inlineOf(t, blob(blueprint)), invalid, says{"nothing says where"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.at(name)
			if c.version.Name != "" {
				w.Push(t, c.version)
			}
			descriptor := c.descriptor
			if descriptor == nil {
				descriptor = refTo(t, w.Context())
			}
			_, err := w.find(t, "blueprint", descriptor, nil)
			isError(t, err, c.reason, c.reason == invalid, c.says...)
		})
	}
	_, err := w.find(t, "blueprint", nil, nil)
	isError(t, err, invalid, true, "blueprint.ref needs componentDescriptor")
}

// TestFindUnauthorized: the user learns that credentials are missing.
func TestFindUnauthorized(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), chartserver.StartRegistry(t, withLogin)
	w.finder = newWorldAt(t, other).finder
	_, err := w.find(t, "", refTo(t, written.Place{Registry: other}.Context()), nil)
	isError(t, err, "ComponentUnauthorized", true, other.Host(), "registryPullSecrets")
}
