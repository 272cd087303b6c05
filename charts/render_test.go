package charts

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/test/testenv"
)

type object = map[string]any

// The release that the tests render.
const (
	releaseName      = "pergola"
	releaseNamespace = "pergola-system"
)

var pergola = sync.OnceValues(func() (*chart.Chart, error) {
	return loader.Load(filepath.Join(testenv.Root(), "charts", "pergola"))
})

// cluster is what a chart is told of the cluster.
type cluster struct {
	version string
	kinds   []string
}

// newest is a cluster without kinds of others.
var newest = cluster{version: "v1.37.0"}

// render renders the chart with values in YAML, and returns the text of each file.
func render(t *testing.T, values string, at cluster) (map[string]string, error) {
	t.Helper()
	parsed := object{}
	if err := yaml.UnmarshalStrict([]byte(values), &parsed); err != nil {
		t.Fatalf("values %s: %v", values, err)
	}
	return renderWith(t, parsed, at)
}

func renderWith(t *testing.T, values object, at cluster) (map[string]string, error) {
	t.Helper()
	loaded, err := pergola()
	if err != nil {
		t.Fatal(err)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kubeVersion(t, at)
	capabilities.APIVersions = append(slices.Clone(capabilities.APIVersions), at.kinds...)
	release := chartutil.ReleaseOptions{Name: releaseName, Namespace: releaseNamespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(loaded, values, release, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(loaded, all)
}

func kubeVersion(t *testing.T, at cluster) *chartutil.KubeVersion {
	t.Helper()
	version, err := chartutil.ParseKubeVersion(at.version)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// manifests are the rendered files that are for the cluster, as one text.
func manifests(files map[string]string) string {
	var all strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".yaml" {
			fmt.Fprintf(&all, "---\n%s\n", files[name])
		}
	}
	return all.String()
}

// objects are what the cluster is given, by kind, namespace and name, as in "Role pergola-system/pergola".
type objects map[string]client.Object

// mustRender renders the chart and decodes each object strictly.
func mustRender(t *testing.T, values string, at cluster) objects {
	t.Helper()
	files, err := render(t, values, at)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, files)
}

// strictDecoder knows all kinds of objects, and takes none with fields that the kind does not have.
var strictDecoder = sync.OnceValues(func() (runtime.Decoder, error) {
	scheme, err := testenv.Scheme()
	if err != nil {
		return nil, err
	}
	addMonitoring(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer(), nil
})

func decode(t *testing.T, files map[string]string) objects {
	t.Helper()
	decoder, err := strictDecoder()
	if err != nil {
		t.Fatal(err)
	}
	found := objects{}
	for _, document := range releaseutil.SplitManifests(manifests(files)) {
		if isEmpty(document) {
			continue
		}
		decoded, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		o, ok := decoded.(client.Object)
		if !ok {
			t.Fatalf("expected an object, but found %s", kind)
		}
		key := keyOf(o, kind.Kind)
		if _, twice := found[key]; twice {
			t.Errorf("%s is rendered twice", key)
		}
		found[key] = o
	}
	return found
}

func keyOf(o client.Object, kind string) string {
	return kind + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}

// isEmpty tells whether a document has nothing but comments and separators.
func isEmpty(document string) bool {
	for line := range strings.Lines(document) {
		if line = strings.TrimSpace(line); line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// one returns the object of a type and name that must be there.
func one[T client.Object](t *testing.T, all objects, key string) T {
	t.Helper()
	found, ok := all[key].(T)
	if !ok {
		t.Fatalf("expected %s, but found %v", key, slices.Sorted(maps.Keys(all)))
	}
	return found
}

// names are the keys of the objects of a kind, sorted.
func (o objects) names(kind string) []string {
	var names []string
	for _, key := range slices.Sorted(maps.Keys(o)) {
		if name, found := strings.CutPrefix(key, kind+" "); found {
			names = append(names, name)
		}
	}
	return names
}
