package chartjob

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

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helmjob"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// renderingType is the type of the Secret.
	renderingType = "pergola.dev/rendering"
	// maxRendering bounds its content, packed; an API server takes 1 MiB.
	maxRendering = 900 << 10
)

// rendering is the Secret on the target with the rendered objects of a job, as Helm has one for a release: they may
// hold passwords, and those do not belong in the status of an item. A job unable to keep them renders again, and leaves
// the applied ones as they are.
type rendering struct {
	job       *helmjob.Job
	namespace string
	// saved: the Secret has the objects of this job.
	saved bool
}

// read returns the objects kept by an earlier call of the job; nil for none.
func (r *rendering) read(ctx context.Context) ([]helm.Object, error) {
	chart := r.job.Record.Chart
	if chart == nil || chart.Rendering == nil {
		return nil, nil
	}
	client, at := r.job.Client, chart.Rendering
	secret, err := client.Core().Secrets(at.Namespace).Get(ctx, at.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		err = target.Explain(client.Host, fmt.Errorf("read the rendered objects: %w", err))
		return nil, job.During(helmjob.StepRender, err)
	case string(secret.Data["job"]) != r.job.Request.JobID || secret.Type != renderingType:
		return nil, nil
	}
	objects, err := unpack(secret.Data["objects"])
	if err != nil {
		return nil, sdk.ConfigurationError(chartobject.ReasonInvalid,
			"Secret %s/%s with the rendered objects of this job: %w; delete it, and the chart is rendered again",
			secret.Namespace, secret.Name, err)
	}
	r.saved = true
	return objects, nil
}

// keep keeps the objects for later calls of the job. Its failure is no failure of the job.
func (r *rendering) keep(ctx context.Context, objects []helm.Object) {
	if r.saved {
		return
	}
	if err := r.save(ctx, objects); err != nil {
		r.job.Request.Log.Info("the rendered objects are not kept for later calls of the job", "error", err.Error())
		return
	}
	r.saved = true
	note(r.job, &managedresource.ObjectReference{
		APIVersion: "v1", Kind: "Secret", Namespace: r.namespace, Name: r.name(),
	})
}

func (r *rendering) save(ctx context.Context, objects []helm.Object) error {
	content, err := pack(objects)
	if err != nil {
		return err
	}
	if len(content) > maxRendering {
		return fmt.Errorf("it has %d bytes, and a Secret takes %d", len(content), maxRendering)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.namespace, Name: r.name(), Labels: map[string]string{owner.Label: r.job.ItemLabel()},
		},
		Type: renderingType, Data: map[string][]byte{"job": []byte(r.job.Request.JobID), "objects": content},
	}
	secrets := r.job.Client.Core().Secrets(r.namespace)
	_, err = secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: owner.FieldManager})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: owner.FieldManager})
	}
	return err
}

// name returns the name of the Secret; each item has its own, whatever its cluster.
func (r *rendering) name() string {
	sum := sha256.Sum256([]byte(cmp.Or(string(r.job.Request.DeployItem.UID), r.job.ItemLabel())))
	return "pergola-rendering-" + hex.EncodeToString(sum[:10])
}

// DropRendering deletes the Secret with rendered objects, if the item has one. After a failure it stays recorded, for a
// later call.
func DropRendering(ctx context.Context, j *helmjob.Job) {
	if j.Record.Chart == nil || j.Record.Chart.Rendering == nil {
		return
	}
	at := j.Record.Chart.Rendering
	err := j.Client.Core().Secrets(at.Namespace).Delete(ctx, at.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		j.Request.Log.Info("the rendered objects of the job are not deleted yet", "error", err.Error())
		return
	}
	note(j, nil)
}

// note records the Secret; nil for none.
func note(j *helmjob.Job, secret *managedresource.ObjectReference) {
	next := *j.Record.Chart
	next.Rendering = secret
	j.Record.Chart = &next
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
