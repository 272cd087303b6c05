package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
)

// Objects reads rendered templates; an error is theirs.
func Objects(source, manifest string) ([]helm.Object, error) {
	objects, err := helm.ParseManifest(source, manifest)
	if err != nil {
		return nil, journal.Failure(helm.RenderFailed, "%v", err)
	}
	return objects, nil
}

// definitionsOf returns the objects of the folders crds of a chart, after combine.
func definitionsOf(c *chart.Chart) ([]helm.Object, error) {
	var objects []helm.Object
	for _, crd := range c.CRDObjects() {
		found, err := helm.ParseManifest(crd.Filename, string(crd.File.Data))
		if err != nil {
			return nil, journal.Failure(helm.ChartInvalid, "%v", err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// Same compares contents: on the way between processes the text of JSON may change.
func Same(a, b []helm.Object) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if bytes.Equal(a[i].JSON, b[i].JSON) {
			continue
		}
		x, errX := Decode(a[i].JSON)
		y, errY := Decode(b[i].JSON)
		if errX != nil || errY != nil || !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// Decode reads a JSON object, and keeps the text of numbers.
func Decode(content []byte) (object map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	err = decoder.Decode(&object)
	return object, err
}

// Write writes objects as Helm does.
func Write(objects []helm.Object) (*bytes.Buffer, error) {
	b := &bytes.Buffer{}
	for _, o := range objects {
		content, err := Decode(o.JSON)
		if err != nil {
			return nil, journal.Failure(helm.Refused, "the replacement of an object of %s is no JSON object", o.Source)
		}
		text, err := yaml.Marshal(content)
		if err != nil {
			return nil, journal.Failure(helm.Refused, "the replacement of an object of %s cannot be written as YAML", o.Source)
		}
		fmt.Fprintf(b, "---\n%s%s\n%s", helm.SourceComment, o.Source, text)
	}
	return b, nil
}

// Hooks reads the objects of hooks, and keeps the data of Secrets among them out of texts.
func (r *Renderer) Hooks(hooks []*release.Hook) ([]helm.Hook, error) {
	var found []helm.Hook
	for _, h := range hooks {
		objects, err := Objects(h.Path, h.Manifest)
		if err != nil {
			return nil, err
		}
		r.journal.Learn(objects)
		var events []string
		for _, e := range h.Events {
			events = append(events, e.String())
		}
		for _, object := range objects {
			found = append(found, helm.Hook{Object: object, Events: events})
		}
	}
	return found, nil
}

// CheckObjects checks the objects of a chart, and keeps the data of Secrets among them out of texts.
func (r *Renderer) CheckObjects(objects []helm.Object) error {
	r.journal.Learn(objects)
	return r.checkNames(objects)
}

// checkNames refuses objects rendered twice: Helm notices at the creation of the second one, and in an upgrade not at
// all. It records the templates of all objects for advice.
func (r *Renderer) checkNames(objects []helm.Object) error {
	sources, templates := map[string]string{}, map[string]string{}
	for _, object := range objects {
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(object.JSON, &head); err != nil {
			return journal.Failure(helm.RenderFailed,
				"%s: metadata: expected the metadata of a Kubernetes object", object.Source)
		}
		kind := head.GroupVersionKind().GroupKind()
		key := kind.String() + "/" + cmp.Or(head.Namespace, r.req.Release.Namespace) + "/" + head.Name
		if first, ok := sources[key]; ok {
			return journal.Failure(helm.RenderFailed, "%s: it renders %s %q, but %s has rendered it already",
				object.Source, kind.Kind, head.Name, first)
		}
		sources[key] = object.Source
		templates[kind.Kind+"/"+head.Name] = object.Source
	}
	r.journal.SetTemplates(templates)
	return nil
}

// CheckRelease checks a revision before its storage: its hooks do not pass the post-renderer.
func (r *Renderer) CheckRelease(rel *release.Release) error {
	size := len(rel.Manifest) + len(rel.Info.Notes)
	for _, h := range rel.Hooks {
		size += len(h.Manifest)
	}
	if err := r.CheckSize(size); err != nil {
		return err
	}
	_, err := r.Hooks(rel.Hooks)
	return err
}
