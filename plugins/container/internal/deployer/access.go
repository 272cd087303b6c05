package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pergola-deploy/pergola/plugins/container/internal/pod"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// reasonNoHostCluster is the reason of the error about a plugin without granted access to the host cluster.
	reasonNoHostCluster = "HostClusterNotGranted"
	// reasonHostCluster is the reason of the errors of the host cluster.
	reasonHostCluster = "HostClusterError"
	// reasonElsewhere is the reason of the error about a Target leading to another cluster than before.
	reasonElsewhere = "TargetChanged"
	// reasonLeftBehind is the reason of the warning about objects left on the former cluster.
	reasonLeftBehind = "LeftBehind"
	// removalPoll is the interval between looks at objects under deletion: only Pods among them are watched.
	removalPoll = 10 * time.Second
)

// namespace returns the namespace of Pods on the host cluster.
func (d *Deployer) namespace(access *sdk.HostCluster) (string, error) {
	if access == nil {
		// It has no code: after the grant of the access, the job goes on.
		return "", &sdk.Error{Reason: reasonNoHostCluster, Err: errors.New(
			"this plugin has no access to the host cluster, on which Pods are run; " +
				"the operator grants it with hostCluster.serviceAccount in the plugin's entry of the " +
				"HostConfiguration")}
	}
	return cmp.Or(d.settings.Namespace, access.Namespace), nil
}

// at returns access to a place. The error is errElsewhere for another cluster than the Target leads to now.
func (j *podJob) at(ctx context.Context, place v1alpha1.Place) (*pod.Cluster, error) {
	if !place.OnTarget {
		return j.deployer.onHost(j.request.HostCluster, place.Namespace)
	}
	client, _, err := job.Connect(j.request, j.deployer.clusters)
	if err != nil {
		return nil, target.WithWaysOut(err)
	}
	at := &pod.Cluster{Client: client, Namespace: place.Namespace}
	if place.Cluster == "" {
		return at, nil
	}
	found, err := at.NamespaceUID(ctx)
	switch {
	case err != nil:
		return nil, j.explain(place, stepStart, err)
	case found != "" && found != place.Cluster: // without the namespace there is nothing in it
		return nil, j.elsewhere(place)
	default:
		return at, nil
	}
}

// errElsewhere is the error about objects on another cluster.
var errElsewhere = errors.New("another cluster")

func (j *podJob) elsewhere(place v1alpha1.Place) error {
	return &sdk.Error{
		Codes:     []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem},
		Operation: stepStart, Reason: reasonElsewhere,
		Err: fmt.Errorf(
			"the last run of the deploy item, or its state, is on %w than Target %q leads to now, "+
				"in a namespace %s with the UID %s; let the Target lead there again, "+
				"or delete the deploy item with the annotation %s, which leaves there what is there",
			errElsewhere, j.request.Target.Name, place.Namespace, place.Cluster, forceCleanup),
	}
}

// leftBehind replaces errElsewhere by a warning for the user about the objects left behind. It returns other errors.
func (j *podJob) leftBehind(place v1alpha1.Place, err error) error {
	if !errors.Is(err, errElsewhere) {
		return err
	}
	j.request.Warning(reasonLeftBehind, fmt.Sprintf(
		"Target %q leads to another cluster than before; what the deploy item has in namespace %s there stays; "+
			"remove what has the label %s=%s",
		j.request.Target.Name, place.Namespace, pod.ItemLabel, j.identity.UID))
	return nil
}

// locate notes the cluster of the Pod.
func (j *podJob) locate(ctx context.Context) error {
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

// onHost returns access to a namespace of the host cluster; empty for the namespace of Pods.
func (d *Deployer) onHost(access *sdk.HostCluster, namespace string) (*pod.Cluster, error) {
	fallback, err := d.namespace(access)
	if err != nil {
		return nil, err
	}
	client, err := d.clusters.Get(access.Kubeconfig)
	if err != nil {
		err = fmt.Errorf("the access to the host cluster cannot be used: %w", err)
		return nil, &sdk.Error{Reason: reasonHostCluster, Err: err}
	}
	return &pod.Cluster{Client: client, Namespace: cmp.Or(namespace, fallback)}, nil
}

// explain returns an error of the cluster of a place as one of the deployer; nil for nil. The job ends if the API
// server refuses an object as invalid.
func (j *podJob) explain(place v1alpha1.Place, step string, err error) error {
	switch {
	case err == nil:
		return nil
	case place.OnTarget:
		return job.During(step, target.WithWaysOut(target.Explain(j.request.Target.Name, err)))
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		out := sdk.ConfigurationError(target.ReasonRejected, "%w", err)
		out.Operation = step
		return out
	default:
		return &sdk.Error{Operation: step, Reason: reasonHostCluster, Err: fmt.Errorf("host cluster: %w", err)}
	}
}
