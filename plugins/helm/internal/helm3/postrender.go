package helm3

import (
	"bytes"

	"helm.sh/helm/v3/pkg/postrender"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/render"
)

// postRenderer hands the objects to the observer, and takes its replacements.
type postRenderer struct{ o *operation }

var _ postrender.PostRenderer = postRenderer{}

// Run returns the manifest to deploy: the same bytes if the observer replaces nothing. Helm calls it with the rendered
// chart.
func (p postRenderer) Run(manifest *bytes.Buffer) (*bytes.Buffer, error) {
	p.o.journal.Enter(journal.Checking)
	p.o.reportWarnings()
	if err := p.o.renderer.CheckSize(manifest.Len()); err != nil {
		return nil, err
	}
	if attempt := p.o.history.Attempt; attempt != nil {
		manifest = bytes.NewBufferString(attempt.Manifest)
	}
	objects, err := render.Objects("", manifest.String())
	if err != nil {
		return nil, err
	}
	replaced, err := p.o.show(objects)
	if err != nil {
		return nil, err
	}
	if render.Same(objects, replaced) {
		return manifest, nil
	}
	return render.Write(replaced)
}

// announce calls the observer before the first change; see newCluster.
func (o *operation) announce() error {
	if err := o.observer.Changing(o.ctx); err != nil {
		return journal.Failure(helm.Refused, "%v", err)
	}
	return nil
}

// show has the observer replace objects.
func (o *operation) show(objects []helm.Object) (replaced []helm.Object, err error) {
	if err := o.renderer.CheckObjects(objects); err != nil {
		return nil, err
	}
	if err := o.ctx.Err(); err != nil {
		return nil, err
	}
	if replaced, err = o.observer.Rendered(o.ctx, objects); err != nil {
		return nil, journal.Failure(helm.Refused, "%v", err)
	}
	o.journal.Learn(replaced)
	return replaced, nil
}
