package component_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/components"
)

// TestReadWritten reads component versions that were written into a registry, in all forms.
func TestReadWritten(t *testing.T) {
	t.Parallel()
	packed := charts.Pack("plain")
	one := func(r components.Resource) []components.Resource { // a chart
		r.Name, r.Content = "chart", packed
		return []components.Resource{r}
	}
	amd := map[string]string{"architecture": "amd64"}
	usual := one(components.Resource{})
	for name, c := range map[string]struct {
		place   components.Place
		version components.Version
		extra   []string // of the key
		has     string   // what shows the form
	}{
		"usual":            {has: components.DescriptorTar, version: components.Version{Resources: usual}},
		"JSON":             {has: components.DescriptorJSON, version: components.Version{Resources: usual, DescriptorType: components.DescriptorJSON}},
		"YAML":             {has: components.DescriptorYAML, version: components.Version{Resources: usual, DescriptorType: components.DescriptorYAML}},
		"legacy":           {has: components.LegacyDescriptorTar, version: components.Version{Resources: usual, DescriptorType: components.LegacyDescriptorTar, ConfigType: components.LegacyConfig}},
		"legacy JSON":      {has: components.LegacyConfig, version: components.Version{Resources: usual, DescriptorType: components.LegacyDescriptorJSON, ConfigType: components.LegacyConfig}},
		"v3alpha1":         {has: components.SchemaV3, version: components.Version{Resources: usual, Schema: components.SchemaV3}},
		"chunks":           {has: ",sha256:", version: components.Version{Resources: one(components.Resource{Stored: components.AsChunks})}},
		"dots":             {has: "blobs/sha256.", version: components.Version{Resources: one(components.Resource{Stored: components.AsDots})}},
		"slashes":          {has: "blobs/sha256/", version: components.Version{Resources: one(components.Resource{Stored: components.AsSlashes})}},
		"index":            {has: ocispec.MediaTypeImageIndex, version: components.Version{Resources: one(components.Resource{Stored: components.AsManifest}), DescriptorType: components.DescriptorJSON}},
		"marked":           {has: `"software.ocm.descriptor":"true"`, version: components.Version{Resources: one(components.Resource{Stored: components.AsManifest}), Marked: true}},
		"no digest":        {has: components.DescriptorTar, version: components.Version{Resources: one(components.Resource{Digest: components.NoDigest})}},
		"excluded":         {has: "NO-DIGEST", version: components.Version{Resources: one(components.Resource{Digest: components.ExcludedDigest})}},
		"build":            {has: "1.0.0+abc", version: components.Version{Version: "1.0.0+abc", Resources: usual}},
		"prefix":           {has: "a/b/component-descriptors/example.com/shop/", place: components.Place{Prefix: "a/b"}, version: components.Version{Resources: usual}},
		"hash of the name": {has: "a/25af21ce5c111abf3df650d52b1fd2c8bdc91436c390a8033a15647ee2946ddf/", place: components.Place{Prefix: "a", HashedNames: true}, version: components.Version{Resources: usual}},
		"identity":         {has: "extraIdentity", version: components.Version{Resources: one(components.Resource{ExtraIdentity: amd})}, extra: []string{"architecture", "amd64"}},
		"alike":            {has: "0.1.0", version: components.Version{Resources: append(one(components.Resource{Version: "0.1.0"}), components.Resource{Name: "chart"})}, extra: []string{"version", "0.1.0"}},
		"types":            {has: "helm.io/chart", version: components.Version{Resources: one(components.Resource{Type: "helm.io/chart", MediaType: "application/x-tgz"})}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.version.Name = shop
			if c.version.Version == "" {
				c.version.Version = version
			}
			c.version.References = []components.Reference{{Name: "leaf", Component: "example.com/leaf", Version: "1.0.0"}}
			c.version.RepositoryContexts = []map[string]any{{"type": "OCIRegistry"}}
			r := &reader{t: t, Place: withRegistry(t, c.place)}
			r.Push(t, c.version)
			key, err := component.ParseKey(components.Key(shop, c.version.Version, "chart", c.extra...))
			must(t, err)
			d, err := r.descriptor(key)
			must(t, err)
			if len(d.References) != 1 || d.References[0].Component != "example.com/leaf" || len(d.RepositoryContexts) != 1 {
				t.Errorf("found %+v", d)
			}
			if content, err := r.content(d, key); err != nil || !bytes.Equal(content, packed) {
				t.Errorf("expected the chart, but found %d bytes and error %v", len(content), err)
			}
			if !bytes.Contains(r.seen.Bytes(), []byte(c.has)) {
				t.Errorf("expected %s, but found another form", c.has)
			}
		})
	}
}

// TestReadSpoiled: each way to spoil a component version has its error.
func TestReadSpoiled(t *testing.T) {
	t.Parallel()
	resource := func(form components.Form) []components.Resource {
		return []components.Resource{{Name: "chart", Content: chart, Stored: form, Digest: components.WrongDigest}}
	}
	for name, c := range map[string]struct {
		version components.Version
		says    string
	}{
		"name":         {components.Version{InsideName: "example.com/other"}, `is that of "example.com/other" "1.2.3"`},
		"version":      {components.Version{InsideVersion: "1.2.4"}, `is that of "example.com/shop" "1.2.4"`},
		"config":       {components.Version{ConfigType: "a/b"}, `an artifact of the type "a/b"`},
		"type":         {components.Version{DescriptorType: "a/b"}, `of the type "a/b", which is not known`},
		"size":         {components.Version{Refer: func(d *ocispec.Descriptor) { d.Size = -1 }}, "an invalid digest or size"},
		"schema":       {components.Version{Schema: "v4"}, `it has the schema "v4"`},
		"document":     {components.Version{Document: []byte("a: [hunter2")}, "it is no YAML"},
		"tar":          {components.Version{DescriptorFile: "other.yaml"}, "has no file component-descriptor.yaml"},
		"blob":         {components.Version{Resources: resource(components.AsBlob)}, "the blob has the digest"},
		"chunks":       {components.Version{Resources: resource(components.AsChunks)}, "the blob has the digest"},
		"artifact set": {components.Version{Resources: resource(components.AsDots)}, "the manifest has the digest"},
		"manifest":     {components.Version{Resources: resource(components.AsManifest)}, "the blob has the digest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.version.Name, c.version.Version = shop, version
			r := &reader{t: t, Place: withRegistry(t, components.Place{})}
			r.Push(t, c.version)
			key := component.Key{Component: shop, Version: version, Resource: component.Identity{"name": "chart"}}
			d, err := r.descriptor(key)
			if err == nil {
				_, err = r.content(d, key)
			}
			refused(t, err, c.says)
		})
	}
}

// TestReadElsewhere: an access leads to what is not stored with the component.
func TestReadElsewhere(t *testing.T) {
	t.Parallel()
	r := &reader{t: t, Place: withRegistry(t, components.Place{})}
	pushed, err := r.Registry.Push("charts/shop", "0.1.0", chart)
	must(t, err)
	access := components.OCIArtifact(r.Registry.Ref("charts/shop", "0.1.0"))
	for want, says := range map[components.Digest]string{
		components.RightDigest: "", components.Digest(pushed): "", components.WrongDigest: "the blob has the digest",
	} {
		r.Push(t, components.Version{Name: shop, Version: version, Resources: []components.Resource{
			{Name: "chart", Access: access, Digest: want},
		}})
		key := component.Key{Component: shop, Version: version, Resource: component.Identity{"name": "chart"}}
		d, err := r.descriptor(key)
		must(t, err)
		if (d.Resources[0].Digest == nil) != (want == "") {
			t.Errorf("%s: found %v", want, d.Resources[0].Digest)
		}
		switch content, err := r.content(d, key); {
		case says != "":
			refused(t, err, says)
		case err != nil, !bytes.Equal(content, chart):
			t.Errorf("%s: expected the chart, but found %q and error %v", want, content, err)
		}
	}
}

// TestReadWrittenBlueprints: they are blobs of a component, and artifacts of their own.
func TestReadWrittenBlueprints(t *testing.T) {
	t.Parallel()
	blueprint := components.Blueprint(map[string]string{"files/a.txt": "a"})
	r := &reader{t: t, Place: withRegistry(t, components.Place{})}
	components.PushArtifact(t, r.Registry, "charts/blueprint", "1.0.0", components.BlueprintTarGzip, components.Gzip(blueprint))
	r.Push(t, components.Version{Name: shop, Version: version, Resources: []components.Resource{
		{Name: "blob", Type: "blueprint", MediaType: components.BlueprintTar, Content: blueprint},
		{Name: "artifact", Type: "blueprint", Access: components.OCIArtifact(r.Registry.Ref("charts/blueprint", "1.0.0"))},
	}})
	key := component.Key{Component: shop, Version: version}
	d, err := r.descriptor(key)
	must(t, err)
	for name, want := range map[string][]byte{"blob": blueprint, "artifact": components.Gzip(blueprint)} {
		_, err := d.Blueprint(name)
		must(t, err)
		key.Resource = component.Identity{"name": name}
		if content, err := r.content(d, key); err != nil || !bytes.Equal(content, want) {
			t.Errorf("%s: expected the blueprint, but found %q and error %v", name, content, err)
		}
	}
}

// TestReadInline: descriptors that are in no registry.
func TestReadInline(t *testing.T) {
	t.Parallel()
	v := components.Version{Name: shop, Version: version, References: []components.Reference{
		{Name: "leaf", Component: "example.com/leaf", Version: "1.0.0", Inline: &components.Version{Name: "example.com/leaf", Version: "1.0.0"}},
	}}
	d, err := component.Parse(object(v.Descriptor()).json(t), "", "")
	must(t, err)
	leaf, err := component.Parse(d.References[0].Inline(), "example.com/leaf", "1.0.0")
	if err != nil || d.Name != shop || leaf.Name != "example.com/leaf" {
		t.Errorf("found %+v, %+v and error %v", d, leaf, err)
	}
}

// withRegistry returns a place in a registry with a login, and another one for what is not a component.
func withRegistry(t *testing.T, place components.Place) components.Place {
	t.Helper()
	place.Registry = chartserver.StartRegistry(t, chartserver.Options{
		PlainHTTP: true, Auth: chartserver.Basic, User: "me", Password: "hunter2",
		Passwords: map[string]string{"charts/": "hunter3"},
	})
	return place
}

// reader reads component versions as a deployer does, except for what it does when a registry fails.
type reader struct {
	components.Place

	t *testing.T
	// seen are the paths and contents that it has got, and what was compressed in them.
	seen bytes.Buffer
}

// get returns a blob or a manifest.
func (r *reader) get(kind chartserver.Kind, repository, reference string) []byte {
	r.t.Helper()
	url := r.Registry.URL() + "/v2/" + repository + string(kind) + reference
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, url, nil)
	must(r.t, err)
	request.SetBasicAuth("me", "hunter2")
	if strings.HasPrefix(repository, "charts/") {
		request.SetBasicAuth("me", "hunter3")
	}
	answer, err := http.DefaultClient.Do(request)
	must(r.t, err)
	content, err := io.ReadAll(answer.Body)
	if _ = answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK { // it was read
		r.t.Fatalf("%s: found %s and error %v", url, answer.Status, err)
	}
	r.seen.WriteString(url)
	r.seen.Write(content)
	return content
}

// blob returns a blob, of which the size and the digest are right.
func (r *reader) blob(repository string, d ocispec.Descriptor) []byte {
	r.t.Helper()
	content := r.get(chartserver.Blob, repository, d.Digest.String())
	if must(r.t, component.Verify("the blob", d.Digest, content)); int64(len(content)) != d.Size {
		r.t.Fatalf("expected %d bytes, but found %d", d.Size, len(content))
	}
	return content
}

// descriptor returns that of a component version, found where the place's repository context leads to.
func (r *reader) descriptor(key component.Key) (*component.Descriptor, error) {
	r.t.Helper()
	place, err := component.ParsePlace(object(r.Context()).json(r.t))
	must(r.t, err)
	repository := place.Repository(key.Component)
	m, err := component.ParseManifest(r.get(chartserver.Manifest, repository, component.TagOf(key.Version)))
	must(r.t, err)
	if m.IsIndex() {
		main, err := m.Main()
		must(r.t, err)
		m, err = component.ParseManifest(r.get(chartserver.Manifest, repository, main.Digest.String()))
		must(r.t, err)
	}
	at, err := m.ComponentConfig()
	if err == nil {
		at, err = component.DescriptorBlob(r.blob(repository, at))
	}
	if err != nil {
		return nil, err
	}
	document, err := component.DescriptorFrom(at.MediaType, r.blob(repository, at))
	if err != nil {
		return nil, err
	}
	return component.Parse(document, key.Component, key.Version)
}

// content returns that of a resource, which has the digest that is expected.
func (r *reader) content(d *component.Descriptor, key component.Key) ([]byte, error) {
	r.t.Helper()
	resource, err := d.Resource(key.Resource)
	must(r.t, err)
	home := registry.Reference{Registry: r.Registry.Host(), Repository: r.Repository(key.Component)}
	access, err := component.ParseAccess(resource.Access, home)
	must(r.t, err)
	var kind component.Kind
	var content, manifest []byte
	switch a := access.(type) {
	case component.Artifact:
		kind, manifest = component.KindArtifact, r.get(chartserver.Manifest, a.Reference.Repository, a.Reference.Reference)
		m, err := component.ParseManifest(manifest)
		must(r.t, err)
		layer, err := m.ChartLayer()
		if resource.Type == "blueprint" {
			layer, err = m.BlueprintLayer()
		}
		must(r.t, err)
		content = r.blob(a.Reference.Repository, layer)
	case component.Blob:
		kind = a.Kind
		for _, chunk := range a.Chunks {
			content = append(content, r.get(chartserver.Blob, a.Repository.Repository, chunk.String())...)
		}
	default:
		r.t.Fatalf("found the access %T", access)
	}
	if kind == component.KindArtifactSet {
		zip, err := gzip.NewReader(bytes.NewReader(content))
		must(r.t, err)
		_, err = r.seen.ReadFrom(zip)
		must(r.t, err)
		set, err := readSet(content)
		must(r.t, err)
		manifest, content = set.Manifest, set.Content
	}
	expected, err := resource.Digest.Expected(kind)
	must(r.t, err)
	if kind == component.KindArtifact && component.Verify("", expected.Blob, manifest) == nil {
		expected.Blob = "" // it is that of the manifest
	}
	return content, errors.Join(component.Verify("the manifest", expected.Manifest, manifest),
		component.Verify("the blob", expected.Blob, content))
}
