package helm3

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// document is a part of a manifest, with the objects in it: one, or several if it is a list.
type document struct {
	source  string
	text    string
	objects []helm.Object
}

const sourceComment = "# Source: "

// parseManifest reads a manifest as Helm writes it. Documents without content are left out.
func parseManifest(manifest string) ([]document, error) {
	parts := releaseutil.SplitManifests(manifest)
	var documents []document
	for i := range len(parts) {
		text := parts[fmt.Sprintf("manifest-%d", i)]
		d := document{text: text}
		if first, _, _ := strings.Cut(text, "\n"); strings.HasPrefix(first, sourceComment) {
			d.source = strings.TrimSpace(strings.TrimPrefix(first, sourceComment))
		}
		var err error
		if d.objects, err = parseObjects(d.source, text); err != nil {
			return nil, err
		}
		if len(d.objects) > 0 {
			documents = append(documents, d)
		}
	}
	return documents, nil
}

// parseObjects reads one document. Its errors are about the template that has rendered it.
func parseObjects(source, text string) ([]helm.Object, error) {
	failed := func(format string, args ...any) error {
		return &helm.Error{Kind: helm.RenderFailed, Template: source, Message: "template " + source + ": " + fmt.Sprintf(format, args...)}
	}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, failed("what it renders is no YAML: %s", strings.TrimPrefix(tidy(err.Error()), "yaml: "))
	}
	if string(bytes.TrimSpace(content)) == "null" {
		return nil, nil
	}
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(content, &head); err != nil {
		return nil, failed("what it renders is no object of Kubernetes: %s", fieldOf(err))
	}
	switch {
	case head.Kind == "":
		return nil, failed("it renders an object without a kind")
	case head.APIVersion == "":
		return nil, failed("it renders the %s %q without an apiVersion", head.Kind, head.Metadata.Name)
	case head.Items != nil:
		return parseItems(source, head.APIVersion, head.Kind, head.Items)
	case head.Metadata.Name == "":
		return nil, failed("it renders a %s without a name", head.Kind)
	}
	return []helm.Object{{Source: source, JSON: content}}, nil
}

// fieldOf says which field of an object has the wrong type, without its value.
func fieldOf(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Sprintf("its field %s is a %s", wrong.Field, wrong.Value)
	}
	return "it is no mapping"
}

// parseItems reads the objects of a list, as kubectl does: they may lack what the list has.
func parseItems(source, apiVersion, kind string, items []json.RawMessage) ([]helm.Object, error) {
	var objects []helm.Object
	for _, item := range items {
		var content map[string]any
		if err := json.Unmarshal(item, &content); err != nil {
			return nil, &helm.Error{Kind: helm.RenderFailed, Template: source, Message: fmt.Sprintf(
				"template %s: it renders a %s with an item that is no object", source, kind)}
		}
		if content["apiVersion"] == nil && content["kind"] == nil && kind != "List" {
			content["apiVersion"], content["kind"] = apiVersion, strings.TrimSuffix(kind, "List")
		}
		text, err := json.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("write an item of a list: %w", err)
		}
		parsed, err := parseObjects(source, string(text))
		if err != nil {
			return nil, err
		}
		objects = append(objects, parsed...)
	}
	return objects, nil
}

// postRenderer hands the objects to the observer, which may replace them.
type postRenderer struct{ o *operation }

var _ postrender.PostRenderer = postRenderer{}

// Run is called by Helm when it has rendered the chart, and returns the manifest that is to be deployed: the same bytes if the observer
// replaces nothing.
func (p postRenderer) Run(manifest *bytes.Buffer) (*bytes.Buffer, error) {
	p.o.clock.stop()
	if int64(manifest.Len()) > p.o.req.Limits.RenderedBytes {
		return nil, p.o.tooLarge("the rendered templates")
	}
	documents, err := parseManifest(manifest.String())
	if err != nil {
		return nil, err
	}
	objects := objectsOf(documents)
	replaced, err := p.o.show(objects)
	if err != nil {
		return nil, err
	}
	if sameObjects(objects, replaced) {
		return manifest, nil
	}
	return writeManifest(documents, replaced)
}

func objectsOf(documents []document) []helm.Object {
	objects := []helm.Object{}
	for _, d := range documents {
		objects = append(objects, d.objects...)
	}
	return objects
}

// show calls the observer.
func (o *operation) show(objects []helm.Object) ([]helm.Object, error) {
	o.learn(objects)
	if err := o.checkNames(objects); err != nil {
		return nil, err
	}
	replaced, err := o.audience.rendered(o.ctx, objects)
	if err != nil {
		return nil, &helm.Error{Kind: helm.Refused, Message: err.Error()}
	}
	o.learn(replaced)
	return replaced, nil
}

// learn keeps what Secrets hold out of what is told.
func (o *operation) learn(objects []helm.Object) {
	for _, object := range objects {
		o.secrecy.LearnObject(object.JSON)
	}
}

// checkNames refuses objects that are rendered twice, and notes where the others are from. Helm notices when it creates the second one, and
// not at all when it upgrades.
func (o *operation) checkNames(objects []helm.Object) error {
	sources := map[string]string{}
	all := make([]rendered, 0, len(objects))
	for _, object := range objects {
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(object.JSON, &head); err != nil {
			return &helm.Error{Kind: helm.RenderFailed, Template: object.Source, Message: fmt.Sprintf(
				"template %s: what it renders is no object of Kubernetes: %s", object.Source, fieldOf(err))}
		}
		kind := head.GroupVersionKind().GroupKind()
		key := kind.String() + "/" + cmp.Or(head.Namespace, o.req.Release.Namespace) + "/" + head.Name
		if first, ok := sources[key]; ok {
			return &helm.Error{Kind: helm.RenderFailed, Template: object.Source, Message: fmt.Sprintf(
				"template %s: it renders %s %q, which %s has rendered already", object.Source, kind.Kind, head.Name, first)}
		}
		sources[key] = object.Source
		all = append(all, rendered{kind: kind.Kind, name: head.Name, template: object.Source})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rendered = all
	return nil
}

// same compares contents: on the way between processes the text of JSON may change.
func same(a, b helm.Object) bool {
	if bytes.Equal(a.JSON, b.JSON) {
		return true
	}
	var x, y any
	return decode(a.JSON, &x) == nil && decode(b.JSON, &y) == nil && reflect.DeepEqual(x, y)
}

func decode(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func sameObjects(a, b []helm.Object) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(a[i], b[i]) {
			return false
		}
	}
	return true
}

// writeManifest writes objects as Helm does. Documents that are the same keep their text, with its comments.
func writeManifest(documents []document, objects []helm.Object) (*bytes.Buffer, error) {
	b := &bytes.Buffer{}
	aligned := len(objects) == len(objectsOf(documents))
	for _, d := range documents {
		if !aligned {
			break
		}
		own := objects[:len(d.objects)]
		objects = objects[len(d.objects):]
		if sameObjects(d.objects, own) {
			fmt.Fprintf(b, "---\n%s\n", d.text)
			continue
		}
		for _, o := range own {
			if err := writeObject(b, d.source, o); err != nil {
				return nil, err
			}
		}
	}
	for _, o := range objects {
		if err := writeObject(b, o.Source, o); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func writeObject(b *bytes.Buffer, source string, o helm.Object) error {
	refused := func(err error) error {
		return &helm.Error{Kind: helm.Refused, Template: source, Message: fmt.Sprintf(
			"what replaces an object of template %s cannot be written as YAML: %s", source, fieldOf(err))}
	}
	var content any
	if err := decode(o.JSON, &content); err != nil {
		return refused(err)
	}
	// The library reads JSON as YAML, which knows fewer escapes.
	plain := &bytes.Buffer{}
	encoder := json.NewEncoder(plain)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil {
		return refused(err)
	}
	text, err := yaml.JSONToYAML(plain.Bytes())
	if err != nil {
		return refused(err)
	}
	b.WriteString("---\n")
	if source != "" {
		b.WriteString(sourceComment + source + "\n")
	}
	b.Write(text)
	return nil
}

// checkRelease looks at what Helm is about to store: hooks are not shown to post-renderers.
func (o *operation) checkRelease(rel *release.Release) error {
	size := len(rel.Manifest) + len(rel.Info.Notes)
	for _, h := range rel.Hooks {
		size += len(h.Manifest)
	}
	if int64(size) > o.req.Limits.RenderedBytes {
		return o.tooLarge("the rendered templates")
	}
	hooks, err := hooksOf(rel.Hooks)
	if err != nil {
		return err
	}
	for _, h := range hooks {
		o.secrecy.LearnObject(h.JSON)
	}
	return nil
}

func hooksOf(hooks []*release.Hook) ([]helm.Hook, error) {
	var found []helm.Hook
	for _, h := range hooks {
		objects, err := parseObjects(h.Path, h.Manifest)
		if err != nil {
			return nil, err
		}
		var events []string
		for _, e := range h.Events {
			events = append(events, e.String())
		}
		for _, o := range objects {
			found = append(found, helm.Hook{Object: o, Events: events})
		}
	}
	return found, nil
}

// definitionsOf returns the objects of the folders crds.
func definitionsOf(c *chart.Chart) ([]helm.Object, error) {
	var objects []helm.Object
	for _, crd := range c.CRDObjects() {
		parts := releaseutil.SplitManifests(string(crd.File.Data))
		for i := range len(parts) {
			parsed, err := parseObjects(crd.Filename, parts[fmt.Sprintf("manifest-%d", i)])
			var invalid *helm.Error
			if errors.As(err, &invalid) {
				invalid.Kind = helm.ChartInvalid
				invalid.Message = strings.NewReplacer("template ", "file ", "what it renders", "its content", "it renders", "it has").Replace(invalid.Message)
			}
			if err != nil {
				return nil, err
			}
			objects = append(objects, parsed...)
		}
	}
	return objects, nil
}
