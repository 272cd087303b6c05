// Command keeper is a deployer for tests of what is left behind: for each item, and for each of its jobs while that is under way, it keeps a
// ConfigMap in the host cluster.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/sdk"
)

// The label of what is kept for the items of one cluster, and the annotations that name item and job.
const (
	installationLabel   = "test.pergola.dev/installation"
	namespaceAnnotation = "test.pergola.dev/namespace"
	nameAnnotation      = "test.pergola.dev/name"
	uidAnnotation       = "test.pergola.dev/uid"
	jobAnnotation       = "test.pergola.dev/job"
)

// config is the provider configuration.
type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Wait leaves a job in progress for ever.
	Wait bool `json:"wait,omitempty"`
	// Secret is one of the item's namespace whose credentials are exported.
	Secret string `json:"secret,omitempty"`
	// Tell is how often the same event is recorded.
	Tell int `json:"tell,omitempty"`
}

type keeper struct{}

var (
	_ sdk.Deployer  = keeper{}
	_ sdk.Collector = keeper{}
)

func main() {
	sdk.Serve(keeper{}, sdk.Name("keeper"), sdk.Version("v1"), sdk.Types("test.pergola.dev/keeper"), sdk.HostClusterAccess())
}

// Reconcile keeps something for the item and its job, and exports who it is in the host cluster.
func (keeper) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	c := &config{}
	if err := req.DecodeConfig(c); err != nil {
		return nil, err
	}
	for range c.Tell {
		req.Event("Told", "the same as ever")
	}
	exports := map[string]any{"granted": req.HostCluster != nil}
	if c.Secret != "" {
		found, err := req.ResolveRegistryCredentials(ctx, req.DeployItem.Namespace, c.Secret)
		if err != nil {
			return nil, err
		}
		exports["credentials"], exports["problem"] = string(found.DockerConfig), found.Problem
	}
	if req.HostCluster == nil {
		return &sdk.Response{Exports: exports}, nil
	}
	s, err := storeOf(req.HostCluster)
	if err != nil {
		return nil, err
	}
	item := sdk.Holding{Namespace: req.DeployItem.Namespace, Name: req.DeployItem.Name, UID: req.DeployItem.UID}
	job := item
	job.JobID = req.JobID
	if err := errors.Join(s.keep(ctx, item), s.keep(ctx, job)); err != nil {
		return nil, err
	}
	if c.Wait {
		return sdk.WaitFor("the end of the world", time.Minute), nil
	}
	review, err := s.client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	exports["user"], exports["namespace"], exports["installation"] = review.Status.UserInfo.Username, s.namespace, s.installation
	return &sdk.Response{Exports: exports}, s.remove(ctx, job)
}

// Delete removes what is kept.
func (keeper) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if req.HostCluster == nil {
		return &sdk.Response{}, nil
	}
	s, err := storeOf(req.HostCluster)
	if err != nil {
		return nil, err
	}
	return &sdk.Response{}, s.remove(ctx, sdk.Holding{UID: req.DeployItem.UID})
}

// Holdings tells what is kept.
func (keeper) Holdings(ctx context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	if req.HostCluster == nil {
		return &sdk.HoldingsResponse{}, nil
	}
	s, err := storeOf(req.HostCluster)
	if err != nil {
		return nil, err
	}
	kept, err := s.list(ctx)
	return &sdk.HoldingsResponse{Holdings: kept}, err
}

// Collect removes what nobody needs.
func (keeper) Collect(ctx context.Context, req *sdk.CollectRequest) error {
	s, err := storeOf(req.HostCluster)
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range req.Holdings {
		errs = append(errs, s.remove(ctx, h))
		req.Log.Info("collected", "uid", string(h.UID), "jobID", h.JobID)
	}
	return errors.Join(errs...)
}

// store is where things are kept.
type store struct {
	client                  kubernetes.Interface
	namespace, installation string
}

func storeOf(cluster *sdk.HostCluster) (*store, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the host cluster: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the host cluster: %w", err)
	}
	return &store{client: client, namespace: cluster.Namespace, installation: cluster.Installation}, nil
}

// nameOf is the name of what is kept for a holding.
func nameOf(h sdk.Holding) string {
	if h.JobID == "" {
		return "item-" + string(h.UID)
	}
	return "job-" + h.JobID
}

func (s *store) keep(ctx context.Context, h sdk.Holding) error {
	_, err := s.client.CoreV1().ConfigMaps(s.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: nameOf(h), Labels: map[string]string{installationLabel: s.installation},
		Annotations: map[string]string{namespaceAnnotation: h.Namespace, nameAnnotation: h.Name, uidAnnotation: string(h.UID), jobAnnotation: h.JobID},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("keep something: %w", err)
	}
	return nil
}

func (s *store) remove(ctx context.Context, h sdk.Holding) error {
	err := s.client.CoreV1().ConfigMaps(s.namespace).Delete(ctx, nameOf(h), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove what is kept: %w", err)
	}
	return nil
}

func (s *store) list(ctx context.Context) ([]sdk.Holding, error) {
	kept, err := s.client.CoreV1().ConfigMaps(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: installationLabel + "=" + s.installation})
	if err != nil {
		return nil, fmt.Errorf("list what is kept: %w", err)
	}
	var holdings []sdk.Holding
	for _, c := range kept.Items {
		holdings = append(holdings, sdk.Holding{
			Namespace: c.Annotations[namespaceAnnotation], Name: c.Annotations[nameAnnotation],
			UID: types.UID(c.Annotations[uidAnnotation]), JobID: c.Annotations[jobAnnotation],
		})
	}
	return holdings, nil
}
