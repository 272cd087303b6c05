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
	// reasonNoHostCluster is given to the error about a plugin that the operator has granted no access to the host
	// cluster.
	reasonNoHostCluster = "HostClusterNotGranted"
	// reasonHostCluster is given to the errors of the host cluster.
	reasonHostCluster = "HostClusterError"
	// reasonElsewhere is given to the error about a Target that leads to another cluster than the one that something is
	// on.
	reasonElsewhere = "TargetChanged"
	// reasonLeftBehind is given to the warning about what cannot be removed for that reason.
	reasonLeftBehind = "LeftBehind"
	// removalPoll is when objects that are being removed are looked at again: nobody watches any but the Pods.
	removalPoll = 10 * time.Second
)

// namespace is where Pods are run on the host cluster.
func (d *Deployer) namespace(access *sdk.HostCluster) (string, error) {
	if access == nil {
		// It has no code: when the operator has granted the access, the job goes on.
		return "", &sdk.Error{Reason: reasonNoHostCluster, Err: errors.New(
			"this plugin has no access to the host cluster, on which Pods are run; " +
				"the operator grants it with hostCluster.serviceAccount in the plugin's entry of the " +
				"HostConfiguration")}
	}
	return cmp.Or(d.settings.Namespace, access.Namespace), nil
}

// at returns access to a place. The error is errElsewhere if it is on another cluster than the Target leads to now.
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
	case found != "" && found != place.Cluster: // in a namespace that is gone there is nothing
		return nil, j.elsewhere(place)
	default:
		return at, nil
	}
}

// errElsewhere says that something is on another cluster.
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

// leftBehind passes over what cannot be removed because the Target leads elsewhere now, and tells the user. Other
// errors are returned.
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

// locate notes on which cluster the Pod will be run.
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

// onHost returns access to a namespace of the host cluster, which defaults to that where Pods are run.
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

// explain returns an error of the cluster of a place as one of the deployer; nil for nil. What the API server finds
// wrong with an object ends the job.
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
