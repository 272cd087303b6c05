package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

const (
	// reasonNoHostCluster is the reason of the error about a plugin without granted access to the host cluster.
	reasonNoHostCluster = "HostClusterNotGranted"
	// reasonHostCluster is the reason of the errors of the host cluster.
	reasonHostCluster = "HostClusterError"
	// reasonLeftBehind is the reason of the warning about objects left on the former cluster.
	reasonLeftBehind = "LeftBehind"
)

// namespace returns the namespace of Pods on the host cluster.
func (r *Runner) namespace(access *sdk.HostCluster) (string, error) {
	if access == nil {
		// It has no code: after the grant of the access, the job goes on.
		return "", &sdk.Error{Reason: reasonNoHostCluster, Err: errors.New(
			"this plugin has no access to the host cluster for its Pods; " +
				"the operator grants it with hostCluster.serviceAccount in the plugin's entry of the " +
				"HostConfiguration")}
	}
	return cmp.Or(r.Settings.Namespace, access.Namespace), nil
}

// OnHost returns access to a namespace of the host cluster; empty for the namespace of Pods.
func (r *Runner) OnHost(access *sdk.HostCluster, namespace string) (*pod.Cluster, error) {
	fallback, err := r.namespace(access)
	if err != nil {
		return nil, err
	}
	client, err := r.Clusters.Get(access.Kubeconfig)
	if err != nil {
		err = fmt.Errorf("the access to the host cluster cannot be used: %w", err)
		return nil, &sdk.Error{Reason: reasonHostCluster, Err: err}
	}
	return &pod.Cluster{Client: client, Namespace: cmp.Or(namespace, fallback)}, nil
}

// at returns access to a place. See job.IsOtherCluster for the error about another cluster than the Target's now.
func (j *Job) at(ctx context.Context, place v1alpha1.Place) (*pod.Cluster, error) {
	if !place.OnTarget {
		return j.runner.OnHost(j.Request.HostCluster, place.Namespace)
	}
	client, _, err := job.Connect(j.Request, j.runner.Clusters)
	if err != nil {
		return nil, target.WithWaysOut(err)
	}
	at := &pod.Cluster{Client: client, Namespace: place.Namespace}
	if place.Cluster == "" {
		return at, nil
	}
	found, err := at.NamespaceUID(ctx) // without the namespace there is nothing in it
	if err == nil {
		err = j.SameCluster(place.Namespace, place.Cluster, found, pod.ForceCleanupAnnotation)
	}
	if err != nil {
		return nil, j.explain(place, stepStart, err)
	}
	return at, nil
}

// locate notes the cluster of the Pod.
func (j *Job) locate(ctx context.Context) error {
	if !j.place.OnTarget || j.place.Cluster != "" {
		return nil
	}
	at, err := j.at(ctx, j.place)
	if err == nil {
		j.place.Cluster, err = at.NamespaceUID(ctx)
		err = j.explain(j.place, stepStart, err)
	}
	return err
}

// leftBehind replaces the error about another cluster by a warning about the objects left behind. It returns other
// errors.
func (j *Job) leftBehind(place v1alpha1.Place, err error) error {
	if !job.IsOtherCluster(err) {
		return err
	}
	j.Request.Warning(reasonLeftBehind, fmt.Sprintf(
		"Target %q leads to another cluster than before; the objects of the deploy item in namespace %s there stay; "+
			"remove those with the label %s=%s",
		j.Request.Target.Name, place.Namespace, pod.ItemLabel, j.identity.UID))
	return nil
}

// ownPod returns the Pod of the run noted last; nil for none.
func (j *Job) ownPod(ctx context.Context, at *pod.Cluster) (*corev1.Pod, error) {
	p, err := at.Pod(ctx, j.status.Run.Name)
	if err == nil && p != nil && p.Labels[pod.ItemLabel] != string(j.identity.UID) {
		p, err = nil, fmt.Errorf("the Pod %s/%s belongs to another owner; delete or rename it", p.Namespace, p.Name)
	}
	return p, j.explain(j.status.Run.Place, stepRun, err)
}

// explain returns an error of the cluster of a place as one of the deployer; nil for nil. The job ends if the API
// server refuses an object as invalid.
func (j *Job) explain(place v1alpha1.Place, step string, err error) error {
	switch {
	case err == nil:
		return nil
	case place.OnTarget:
		return job.During(step, target.WithWaysOut(target.Explain(j.Request.Target.Name, err)))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		out := target.Rejected(err)
		out.Operation = step
		return out
	default:
		return &sdk.Error{Operation: step, Reason: reasonHostCluster, Err: fmt.Errorf("host cluster: %w", err)}
	}
}
