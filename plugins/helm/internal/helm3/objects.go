package helm3

import (
	"bytes"
	"cmp"
	"encoding/json"

	"helm.sh/helm/v3/pkg/postrender"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// hooksOf reads the objects of hooks, and keeps the data of Secrets among them out of texts.
func (o *operation) hooksOf(hooks []*release.Hook) ([]helm.Hook, error) {
	var found []helm.Hook
	for _, h := range hooks {
		objects, err := objectsOf(h.Path, h.Manifest)
		if err != nil {
			return nil, err
		}
		o.learn(objects)
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

// postRenderer hands the objects to the observer, and takes its replacements.
type postRenderer struct{ o *operation }

var _ postrender.PostRenderer = postRenderer{}

// Run returns the manifest to deploy: the same bytes if the observer replaces nothing. Helm calls it with the rendered
// chart.
func (p postRenderer) Run(manifest *bytes.Buffer) (*bytes.Buffer, error) {
	p.o.enter(checking)
	p.o.tellWarnings()
	if int64(manifest.Len()) > p.o.req.Limits.RenderedBytes {
		return nil, p.o.tooLarge("the rendered templates")
	}
	if p.o.attempt != nil {
		manifest = bytes.NewBufferString(p.o.attempt.manifest)
	}
	objects, err := objectsOf("", manifest.String())
	if err != nil {
		return nil, err
	}
	replaced, err := p.o.show(objects)
	if err != nil {
		return nil, err
	}
	if sameObjects(objects, replaced) {
		return manifest, nil
	}
	return writeManifest(replaced)
}

// announce calls the observer before the first change.
func (o *operation) announce() error {
	if err := o.observer.Changing(o.ctx); err != nil {
		return failure(helm.Refused, "%v", err)
	}
	return nil
}

func (o *operation) show(objects []helm.Object) (replaced []helm.Object, err error) {
	o.learn(objects)
	if err := o.checkNames(objects); err != nil {
		return nil, err
	}
	if err := o.ctx.Err(); err != nil {
		return nil, err
	}
	if replaced, err = o.observer.Rendered(o.ctx, objects); err != nil {
		return nil, failure(helm.Refused, "%v", err)
	}
	o.learn(replaced)
	return replaced, nil
}

// learn keeps the data of Secrets out of texts.
func (o *operation) learn(objects []helm.Object) {
	for _, object := range objects {
		o.redactor.LearnObject(object.JSON)
	}
}

// checkNames refuses objects rendered twice: Helm notices at the creation of the second one, and in an upgrade not at
// all. It records the templates of all objects for advice.
func (o *operation) checkNames(objects []helm.Object) error {
	sources, templates := map[string]string{}, map[string]string{}
	for _, object := range objects {
		var head metav1.PartialObjectMetadata
		if err := json.Unmarshal(object.JSON, &head); err != nil {
			return failure(helm.RenderFailed, "%s: its metadata is not that of an object of Kubernetes", object.Source)
		}
		kind := head.GroupVersionKind().GroupKind()
		key := kind.String() + "/" + cmp.Or(head.Namespace, o.req.Release.Namespace) + "/" + head.Name
		if first, ok := sources[key]; ok {
			return failure(helm.RenderFailed, "%s: it renders %s %q, which %s has rendered already",
				object.Source, kind.Kind, head.Name, first)
		}
		sources[key] = object.Source
		templates[kind.Kind+"/"+head.Name] = object.Source
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.templates = templates
	return nil
}

// checkRelease checks a revision before its storage: its hooks do not pass the post-renderer.
func (o *operation) checkRelease(rel *release.Release) error {
	size := len(rel.Manifest) + len(rel.Info.Notes)
	for _, h := range rel.Hooks {
		size += len(h.Manifest)
	}
	if int64(size) > o.req.Limits.RenderedBytes {
		return o.tooLarge("the rendered templates")
	}
	_, err := o.hooksOf(rel.Hooks)
	return err
}
