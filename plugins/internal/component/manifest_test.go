package component_test

import (
	"archive/tar"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

const (
	configType     = "application/vnd.ocm.software.component.config.v1+json"
	tarType        = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar"
	helmType       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	provenanceType = "application/vnd.cncf.helm.chart.provenance.v1.prov"
)

func parsed(t *testing.T, document object) *component.Manifest {
	t.Helper()
	m, err := component.ParseManifest(document.json(t))
	must(t, err)
	return m
}

// TestFindDescriptor goes the way from the tag to the descriptor, for all media types.
func TestFindDescriptor(t *testing.T) {
	t.Parallel()
	const document = "meta: {schemaVersion: v2}"
	packed := tarOf(t, file{name: "other"}, file{name: "/component-descriptor.yaml", content: []byte(document)}, file{name: "component-descriptor.yaml", content: []byte("second")})
	for _, config := range []string{
		configType, "application/vnd.gardener.cloud.cnudie.component.config.v1+json",
		"application/vnd.oci.gardener.cloud.cnudie.component-descriptor-metadata.config.v2+json",
	} {
		for mediaType, content := range map[string][]byte{
			tarType: packed,
			"application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml+tar":            packed,
			"application/vnd.oci.gardener.cloud.cnudie.component-descriptor.config.v2+yaml+tar": packed,
			"application/vnd.ocm.software.component-descriptor.v2+json":                         []byte(document),
			"application/vnd.ocm.software.component-descriptor.v2+yaml":                         []byte(document),
			"application/vnd.gardener.cloud.cnudie.component-descriptor.v2+json":                []byte(document),
			"application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml":                []byte(document),
		} {
			configBlob := object{"componentDescriptorLayer": blob(mediaType, content)}.json(t)
			manifest := parsed(t, object{"config": blob(config, configBlob), "layers": []object{blob(mediaType, content)}})
			at, err := manifest.ComponentConfig()
			if err != nil || at.MediaType != config || manifest.IsIndex() {
				t.Fatalf("%s: found config %v and error %v", config, at, err)
			}
			if at, err = component.DescriptorBlob(configBlob); err != nil || at.MediaType != mediaType {
				t.Fatalf("%s: found descriptor %v and error %v", mediaType, at, err)
			}
			if found, err := component.DescriptorFrom(mediaType, content); err != nil || string(found) != document {
				t.Errorf("%s: found %q and error %v", mediaType, found, err)
			}
		}
	}
}

func TestMainOfIndex(t *testing.T) {
	t.Parallel()
	one, other := blob(ocispec.MediaTypeImageManifest, []byte("1")), blob(ocispec.MediaTypeImageManifest, []byte("2"))
	marked := blob(ocispec.MediaTypeImageManifest, []byte("3"))
	marked["annotations"] = object{"software.ocm.descriptor": "true"}
	for name, c := range map[string]struct {
		manifests []object
		want      object
		says      string
	}{
		"first":   {manifests: []object{one, other}, want: one},
		"marked":  {manifests: []object{one, marked, other}, want: marked},
		"several": {manifests: []object{marked, marked}, says: "an index with 2 manifests of components"},
		"empty":   {manifests: []object{}, says: "an index without manifests"},
		"digest":  {manifests: []object{{"digest": "sha256:x"}}, says: "the first manifest of the index has an invalid digest or size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := parsed(t, object{"manifests": c.manifests})
			found, err := m.Main()
			if c.says != "" {
				refused(t, err, c.says)
				return
			}
			if err != nil || found.Digest != c.want["digest"] || !m.IsIndex() {
				t.Errorf("expected %v, but found %v and error %v", c.want, found, err)
			}
		})
	}
}

func TestNoComponent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifest object
		says     string
	}{
		"another type": {object{"config": blob("application/vnd.cncf.helm.config.v1+json", nil)}, `no component but to an artifact of the type "application/vnd.cncf.helm.config.v1+json"`},
		"no config":    {object{"layers": []object{}}, "a manifest without a config"},
		"an index":     {object{"manifests": []object{}}, "an index of indexes"},
		"size":         {object{"config": object{"mediaType": configType, "digest": blob("", nil)["digest"], "size": -1}}, "the config of the component's manifest has an invalid digest or size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parsed(t, c.manifest).ComponentConfig()
			refused(t, err, c.says)
		})
	}
	for _, document := range []string{"hunter2", `{"manifests": [], "layers": []}`, `{"manifests": [], "config": {}}`, "[]"} {
		_, err := component.ParseManifest([]byte(document))
		refused(t, err, "expected a manifest of a registry, but found something else")
	}
	for document, says := range map[string]string{
		"hunter2": "cannot be read as JSON", "{}": `of the type "", which is not known`,
		`{"componentDescriptorLayer":{"mediaType":"` + tarType + `","digest":"../x"}}`: "has an invalid digest or size",
	} {
		_, err := component.DescriptorBlob([]byte(document))
		refused(t, err, says)
	}
}

func TestDescriptorFromHostileTar(t *testing.T) {
	t.Parallel()
	const name = "component-descriptor.yaml"
	whole := tarOf(t, file{name: name, content: []byte(strings.Repeat("x", 4900))})
	for title, c := range map[string]struct {
		content []byte
		says    string
	}{
		"empty":      {nil, "has no file component-descriptor.yaml"},
		"other name": {tarOf(t, file{name: "descriptor.yaml"}), "has no file component-descriptor.yaml"},
		"link":       {tarOf(t, file{name: name, header: tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}), "has no file component-descriptor.yaml"},
		"truncated":  {whole[:5000], "cannot be read: unexpected EOF"},
		"no tar":     {[]byte(strings.Repeat("hunter2", 100)), "cannot be read: archive/tar: invalid tar header"},
		"sparse":     {sparse(t, name), "a file component-descriptor.yaml that is larger than the tar"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			_, err := component.DescriptorFrom(tarType, c.content)
			refused(t, err, c.says)
		})
	}
}

func TestChartLayer(t *testing.T) {
	t.Parallel()
	chart, legacy, provenance := blob(helmType, []byte("chart")), blob("application/tar+gzip", []byte("legacy")), blob(provenanceType, []byte("prov"))
	for name, c := range map[string]struct {
		layers []object
		want   object
		says   string
	}{
		"chart":   {layers: []object{provenance, chart}, want: chart},
		"both":    {layers: []object{legacy, chart}, want: chart},
		"legacy":  {layers: []object{provenance, legacy}, want: legacy},
		"none":    {layers: []object{provenance}, says: "has 0 layers with a chart"},
		"several": {layers: []object{chart, chart}, says: "has 2 layers with a chart"},
		"digest":  {layers: []object{{"mediaType": helmType}}, says: "the layer with the chart has an invalid digest or size"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := parsed(t, object{"layers": c.layers}).ChartLayer()
			if c.says != "" {
				refused(t, err, c.says)
			} else if err != nil || found.Digest != c.want["digest"] {
				t.Errorf("expected %v, but found %v and error %v", c.want, found, err)
			}
		})
	}
}

func TestBlueprintLayer(t *testing.T) {
	t.Parallel()
	const config = "application/vnd.gardener.landscaper.blueprint.config.v1"
	for name, c := range map[string]struct {
		manifest object
		says     string
	}{
		"config":    {manifest: object{"config": blob(config, nil), "layers": []object{blob("a/b", nil), blob("c/d", nil)}}},
		"layer":     {manifest: object{"layers": []object{blob("application/x-tgz", nil)}}},
		"no layers": {manifest: object{"config": blob(config, nil)}, says: "has no layers"},
		"no type":   {manifest: object{"layers": []object{blob("a/b", nil), blob("application/x-tgz", nil)}}, says: `its first layer has the type "a/b"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := parsed(t, c.manifest)
			found, err := m.BlueprintLayer()
			if c.says != "" {
				refused(t, err, c.says)
			} else if err != nil || found.MediaType != m.Layers[0].MediaType {
				t.Errorf("found %v and error %v", found, err)
			}
		})
	}
}

// TestManyElements: a short document with a million elements takes no gigabyte.
func TestManyElements(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }
	descriptor := func(list, elements string) []byte {
		return []byte(`{"meta": {"schemaVersion": "v2"}, "component": {"name": "example.com/shop", "version": "1.2.3", "` + list + `": ` + elements + `}}`)
	}
	for _, list := range []string{"layers", "manifests"} {
		if _, err := component.ParseManifest([]byte(`{"` + list + `": ` + many(1000) + `}`)); err != nil {
			t.Errorf("%s: %v", list, err)
		}
		_, err := component.ParseManifest([]byte(`{"` + list + `": ` + many(1001) + `}`))
		refused(t, err, "more than 1000")
	}
	for _, list := range []string{"repositoryContexts", "resources", "sources", "componentReferences"} {
		_, err := component.Parse(descriptor(list, many(10_001)), shop, version)
		refused(t, err, "more than 10000")
	}
	inTexts := `[{"name": "a,b"}, {"name": "c\\", "type": "\",\"", "access": {"a": [1, 2, 3]}}]`
	if d, err := component.Parse(descriptor("resources", inTexts), shop, version); err != nil || len(d.Resources) != 2 {
		t.Errorf("expected two resources, but found %v and %v", d, err)
	}
	for _, list := range []string{"null", "[]", "[ ]"} {
		if _, err := component.Parse(descriptor("resources", list), shop, version); err != nil {
			t.Errorf("%s: %v", list, err)
		}
	}
}
