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
	packed := tarOf(t, file{name: "other"}, file{name: "/component-descriptor.yaml", content: []byte(document)},
		file{name: "component-descriptor.yaml", content: []byte("second")})
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
			check(t, config, at.MediaType, err, "")
			at, err = component.DescriptorBlob(configBlob)
			check(t, mediaType, at.MediaType, err, "")
			found, err := component.DescriptorFrom(mediaType, content)
			check(t, document, string(found), err, "")
		}
	}
}

// TestChosenBlobs: the blob or manifest that a manifest or an index leads to.
func TestChosenBlobs(t *testing.T) {
	t.Parallel()
	type choice = func(*component.Manifest) (ocispec.Descriptor, error)
	var (
		main      = (*component.Manifest).Main
		config    = (*component.Manifest).ComponentConfig
		chart     = (*component.Manifest).ChartLayer
		blueprint = (*component.Manifest).BlueprintLayer
	)
	manifests := func(list ...object) object { return object{"manifests": list} }
	layers := func(list ...object) object { return object{"layers": list} }
	one, other := blob(ocispec.MediaTypeImageManifest, []byte("1")), blob("a/b", nil)
	marked := blob("a/b", []byte("3"))
	marked["annotations"] = object{"software.ocm.descriptor": "true"}
	helm, prov := blob(helmType, []byte("1")), blob(provenanceType, nil)
	legacy := blob("application/tar+gzip", []byte("2"))
	typed := blob("application/vnd.gardener.landscaper.blueprint.config.v1", nil)
	tgz := blob("application/x-tgz", []byte("x"))
	for name, c := range map[string]struct {
		choose choice
		from   object
		want   object
		says   string
	}{
		"first manifest":    {main, manifests(one, other), one, ""},
		"marked":            {main, manifests(one, marked, other), marked, ""},
		"several marked":    {main, manifests(marked, marked), nil, "an index with 2 manifests of components"},
		"empty index":       {main, manifests([]object{}...), nil, "an index without manifests"},
		"digest in index":   {main, manifests(object{"digest": "sha256:x"}), nil, "first manifest of the index has an"},
		"another type":      {config, object{"config": helm}, nil, `to an artifact of the type "` + helmType + `"`},
		"no config":         {config, layers(), nil, "a manifest without a config"},
		"an index":          {config, manifests([]object{}...), nil, "an index of indexes"},
		"chart":             {chart, layers(prov, helm), helm, ""},
		"chart and legacy":  {chart, layers(legacy, helm), helm, ""},
		"legacy":            {chart, layers(prov, legacy), legacy, ""},
		"no chart":          {chart, layers(prov), nil, "has 0 layers with a chart"},
		"several charts":    {chart, layers(helm, helm), nil, "has 2 layers with a chart"},
		"digest of a chart": {chart, layers(object{"mediaType": helmType}), nil, "the layer with the chart has an"},
		"blueprint, config": {blueprint, object{"config": typed, "layers": []object{one, other}}, one, ""},
		"blueprint, layer":  {blueprint, layers(tgz), tgz, ""},
		"no layers":         {blueprint, object{"config": typed}, nil, "has no layers"},
		"no type":           {blueprint, layers(other, tgz), nil, `its first layer has the type "a/b"`},
		"size": {
			config, object{"config": object{"mediaType": configType, "digest": one["digest"], "size": -1}}, nil,
			"the config of the component's manifest has an invalid digest or size",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := c.choose(parsed(t, c.from))
			check(t, c.want["digest"], any(found.Digest), err, c.says)
		})
	}
}

func TestNoComponent(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		"hunter2", `{"manifests": [], "layers": []}`, `{"manifests": [], "config": {}}`, "[]",
	} {
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
	const name, none = "component-descriptor.yaml", "has no file component-descriptor.yaml"
	link := file{name: name, header: tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}
	whole := tarOf(t, file{name: name, content: []byte(strings.Repeat("x", 4900))})
	for title, c := range map[string]struct {
		content []byte
		says    string
	}{
		"empty":      {nil, none},
		"other name": {tarOf(t, file{name: "descriptor.yaml"}), none},
		"link":       {tarOf(t, link), none},
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

// TestManyElements: a short document with a million elements takes no gigabyte.
func TestManyElements(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }
	parse := func(list, elements string) (*component.Descriptor, error) {
		return component.Parse([]byte(`{"meta": {"schemaVersion": "v2"}, "component": {"name": "`+shop+`", "version": "`+
			version+`", "`+list+`": `+elements+`}}`), shop, version)
	}
	for _, list := range []string{"layers", "manifests"} {
		_, err := component.ParseManifest([]byte(`{"` + list + `": ` + many(1000) + `}`))
		must(t, err)
		_, err = component.ParseManifest([]byte(`{"` + list + `": ` + many(1001) + `}`))
		refused(t, err, "more than 1000")
	}
	for _, list := range []string{"repositoryContexts", "resources", "sources", "componentReferences"} {
		_, err := parse(list, many(10_001))
		refused(t, err, "more than 10000")
	}
	for list, want := range map[string]int{
		"null": 0, "[]": 0, "[ ]": 0, `[{"name": "a,b"}, {"name": "c\\", "type": "\",\"", "access": {"a": [1, 2, 3]}}]`: 2,
	} {
		d, err := parse("resources", list)
		must(t, err)
		check(t, want, len(d.Resources), nil, "")
	}
}
