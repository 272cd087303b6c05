package helm3

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"helm.sh/helm/v3/pkg/chart"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// objectsOf reads rendered templates; an error is theirs.
func objectsOf(source, manifest string) ([]helm.Object, error) {
	objects, err := helm.ParseManifest(source, manifest)
	if err != nil {
		return nil, failure(helm.RenderFailed, "%v", err)
	}
	return objects, nil
}

// definitionsOf returns the objects of the folders crds of a chart, after combine.
func definitionsOf(c *chart.Chart) ([]helm.Object, error) {
	var objects []helm.Object
	for _, crd := range c.CRDObjects() {
		found, err := helm.ParseManifest(crd.Filename, string(crd.File.Data))
		if err != nil {
			return nil, failure(helm.ChartInvalid, "%v", err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// sameObjects compares contents: on the way between processes the text of JSON may change.
func sameObjects(a, b []helm.Object) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if bytes.Equal(a[i].JSON, b[i].JSON) {
			continue
		}
		x, errX := decode(a[i].JSON)
		y, errY := decode(b[i].JSON)
		if errX != nil || errY != nil || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// decode keeps the text of numbers.
func decode(content []byte) (object map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	err = decoder.Decode(&object)
	return object, err
}

// writeManifest writes objects as Helm does.
func writeManifest(objects []helm.Object) (*bytes.Buffer, error) {
	b := &bytes.Buffer{}
	for _, o := range objects {
		content, err := decode(o.JSON)
		if err != nil {
			return nil, failure(helm.Refused, "what replaces an object of %s is no JSON object", o.Source)
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			return nil, failure(helm.Refused, "what replaces an object of %s cannot be written as YAML", o.Source)
		}
		fmt.Fprintf(b, "---\n%s%s\n%s", helm.SourceComment, o.Source, text)
	}
	return b, nil
}
