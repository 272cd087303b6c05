package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/sdk"
)

// keys begins the label of what is kept for the items of one installation, and the annotations that name item and job.
const keys = "test.pergola.dev/"

// keeperConfig is the provider configuration.
type keeperConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Wait leaves a job in progress for ever.
	Wait bool `json:"wait,omitempty"`
	// Secret is one of the item's namespace whose credentials are exported.
	Secret string `json:"secret,omitempty"`
	// Tell is how often the same event is recorded in each call.
	Tell int `json:"tell,omitempty"`
}

// keeper keeps a ConfigMap in the host cluster for each item, and for each of its jobs while that is under way.
type keeper struct{}

var _ sdk.Collector = keeper{}

// Reconcile keeps something for the item and its job, and exports who it is in the host cluster.
func (keeper) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	c := &keeperConfig{}
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
		return sdk.WaitFor("the end of the world", time.Second), nil
	}
	exports["namespace"], exports["installation"] = req.HostCluster.Namespace, req.HostCluster.Installation
	if exports["user"], err = s.user(ctx); err != nil {
		return nil, err
	}
	return &sdk.Response{Exports: exports}, s.remove(ctx, job)
}

// Delete removes what is kept.
func (keeper) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	s, err := storeOf(req.HostCluster)
	if err != nil {
		return nil, err
	}
	return &sdk.Response{}, s.remove(ctx, sdk.Holding{UID: req.DeployItem.UID})
}

// Holdings tells what is kept.
func (keeper) Holdings(ctx context.Context, req *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	out := &sdk.HoldingsResponse{}
	if req.HostCluster == nil {
		return out, nil
	}
	s, err := storeOf(req.HostCluster)
	if err != nil {
		return nil, err
	}
	ours := metav1.ListOptions{LabelSelector: keys + "installation=" + s.cluster.Installation}
	kept, err := s.configMaps().List(ctx, ours)
	if err != nil {
		return nil, err
	}
	for _, o := range kept.Items {
		a := o.GetAnnotations()
		out.Holdings = append(out.Holdings, sdk.Holding{
			Namespace: a[keys+"namespace"], Name: a[keys+"name"], UID: types.UID(a[keys+"uid"]), JobID: a[keys+"job"],
		})
	}
	return out, nil
}

// Collect removes what nobody needs.
func (keeper) Collect(ctx context.Context, req *sdk.CollectRequest) error {
	s, err := storeOf(req.HostCluster)
	for _, h := range req.Holdings {
		if err == nil {
			err = s.remove(ctx, h)
		}
		req.Log.Info("collected", "uid", string(h.UID), "jobID", h.JobID)
	}
	return err
}

// store is the host cluster, in which things are kept.
type store struct {
	cluster *sdk.HostCluster
	client  dynamic.Interface
}

func storeOf(cluster *sdk.HostCluster) (*store, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the host cluster: %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	return &store{cluster, client}, err
}

func (s *store) configMaps() dynamic.ResourceInterface {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	return s.client.Resource(resource).Namespace(s.cluster.Namespace)
}

// nameOf is the name of what is kept for a holding.
func nameOf(h sdk.Holding) string {
	if h.JobID == "" {
		return "item-" + string(h.UID)
	}
	return "job-" + h.JobID
}

func (s *store) keep(ctx context.Context, h sdk.Holding) error {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetName(nameOf(h))
	o.SetLabels(map[string]string{keys + "installation": s.cluster.Installation})
	o.SetAnnotations(map[string]string{
		keys + "namespace": h.Namespace, keys + "name": h.Name, keys + "uid": string(h.UID), keys + "job": h.JobID,
	})
	_, err := s.configMaps().Create(ctx, o, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (s *store) remove(ctx context.Context, h sdk.Holding) error {
	err := s.configMaps().Delete(ctx, nameOf(h), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// user is the name that the host cluster knows the plugin by.
func (s *store) user(ctx context.Context) (string, error) {
	version := schema.GroupVersion{Group: "authentication.k8s.io", Version: "v1"}
	review := &unstructured.Unstructured{}
	review.SetGroupVersionKind(version.WithKind("SelfSubjectReview"))
	reviews := s.client.Resource(version.WithResource("selfsubjectreviews"))
	review, err := reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	name, _, err := unstructured.NestedString(review.Object, "status", "userInfo", "username")
	return name, err
}
