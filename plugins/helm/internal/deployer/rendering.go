package deployer

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// A chart without a release is rendered once per job: random texts, the time and lookups differ in each rendering. A
// job with all objects applied goes on with its inventory. Before that it keeps the objects in a Secret on the target,
// as Helm does for a release: they may hold passwords, and those do not belong in the status of an item. If it cannot
// keep them it renders again, and leaves the applied ones as they are.

const (
	// renderingType is the type of the Secret.
	renderingType = "pergola.dev/rendering"
	// maxRendering bounds its content, packed; an API server takes 1 MiB.
	maxRendering = 900 << 10
)

// settledObjects returns the objects of the job: those of an earlier call, or else of a new rendering.
func (j *helmJob) settledObjects(ctx context.Context, c *config.Config) ([]helm.Object, error) {
	if j.chart != nil && j.chart.AppliedIn == j.Request.JobID {
		return namesOf(j.Status.Settled())
	}
	kept, err := j.readRendering(ctx)
	if err != nil || kept != nil {
		return kept, err
	}
	archive, err := j.fetch(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	defer archive.Release()
	rendered, err := j.render(ctx, c, archive, 0)
	if err != nil {
		return nil, err
	}
	next := chartStatus(rendered.Chart, archive)
	if j.chart != nil {
		next.Rendering = j.chart.Rendering // it exists until its deletion
	}
	j.chart = next
	return objectsOf(rendered, j.Request.Children)
}

// namesOf returns objects with a kind and a name alone, for entries of the inventory.
func namesOf(entries []managedresource.ManagedResourceStatus) ([]helm.Object, error) {
	objects := make([]helm.Object, 0, len(entries))
	for _, e := range entries {
		content, err := json.Marshal(metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: e.Resource.APIVersion, Kind: e.Resource.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: e.Resource.Namespace, Name: e.Resource.Name},
		})
		if err != nil {
			return nil, fmt.Errorf("write the name of an object: %w", err)
		}
		objects = append(objects, helm.Object{JSON: content})
	}
	return objects, nil
}

// noteAllApplied records that the job has applied all objects. The rendering of an object with its own deletion is
// still needed: readiness checks select the object by its labels.
func (j *helmJob) noteAllApplied(ctx context.Context, applied []apply.Applied, objects []helm.Object, namespace string) {
	for _, a := range applied {
		if completion.NeedNotStay(a.Live) {
			j.keepRendering(ctx, objects, namespace)
			return
		}
	}
	next := *j.chart
	next.AppliedIn = j.Request.JobID
	j.chart = &next
	j.dropRendering(ctx)
}

// keepRendering keeps the objects for later calls of the job. Its failure is no failure of the job.
func (j *helmJob) keepRendering(ctx context.Context, objects []helm.Object, namespace string) {
	if j.chart.Rendering != nil && j.keptFor == j.Request.JobID {
		return
	}
	content, err := pack(objects)
	if err == nil && len(content) > maxRendering {
		err = fmt.Errorf("it has %d bytes, and a Secret takes %d", len(content), maxRendering)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: j.renderingName(), Labels: map[string]string{owner.Label: itemLabel(j.Owner)},
		},
		Type: renderingType, Data: map[string][]byte{"job": []byte(j.Request.JobID), "objects": content},
	}
	if err == nil {
		secrets := j.Client.Core().Secrets(namespace)
		_, err = secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: owner.FieldManager})
		if apierrors.IsAlreadyExists(err) {
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: owner.FieldManager})
		}
	}
	if err != nil {
		j.Request.Log.Info("the rendered objects are not kept for later calls of the job", "error", err.Error())
		return
	}
	j.keptFor = j.Request.JobID
	j.noteRendering(&managedresource.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: namespace, Name: secret.Name,
	})
}

// renderingName returns the name of the Secret; each item has its own, whatever its cluster.
func (j *helmJob) renderingName() string {
	sum := sha256.Sum256([]byte(cmp.Or(string(j.Request.DeployItem.UID), itemLabel(j.Owner))))
	return "pergola-rendering-" + hex.EncodeToString(sum[:10])
}

func (j *helmJob) noteRendering(r *managedresource.ObjectReference) {
	next := *j.chart
	next.Rendering = r
	j.chart = &next
}

// readRendering returns the objects kept by an earlier call of the job; nil for none.
func (j *helmJob) readRendering(ctx context.Context) ([]helm.Object, error) {
	if j.chart == nil || j.chart.Rendering == nil {
		return nil, nil
	}
	secret, err := j.Client.Core().Secrets(j.chart.Rendering.Namespace).Get(ctx, j.chart.Rendering.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, job.During(stepRender, target.Explain(j.Client.Host, fmt.Errorf("read the rendered objects: %w", err)))
	case string(secret.Data["job"]) != j.Request.JobID || secret.Type != renderingType:
		return nil, nil
	}
	objects, err := unpack(secret.Data["objects"])
	if err != nil {
		return nil, sdk.ConfigurationError(reasonRendered,
			"Secret %s/%s with the rendered objects of this job: %w; delete it, and the chart is rendered again",
			secret.Namespace, secret.Name, err)
	}
	j.keptFor = j.Request.JobID
	return objects, nil
}

// dropRendering deletes the Secret. After a failure it stays recorded, for a later call.
func (j *helmJob) dropRendering(ctx context.Context) {
	if j.chart == nil || j.chart.Rendering == nil {
		return
	}
	r := j.chart.Rendering
	err := j.Client.Core().Secrets(r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		j.Request.Log.Info("the rendered objects of the job are not deleted yet", "error", err.Error())
		return
	}
	j.noteRendering(nil)
}

func pack(objects []helm.Object) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(objects); err != nil {
		return nil, fmt.Errorf("pack the rendered objects: %w", err)
	}
	err := w.Close()
	return b.Bytes(), err
}

func unpack(content []byte) (objects []helm.Object, err error) {
	const most = 64 << 20
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	if err := json.NewDecoder(io.LimitReader(r, most)).Decode(&objects); err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return objects, nil
}
