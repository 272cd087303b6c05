package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// namespace is where the demo's objects live.
const namespace = "pergola-demo"

// cluster is where the demo takes place: both the cluster with the DeployItems and the target.
type cluster struct {
	client           client.Client
	kubeconfig       string
	targetKubeconfig []byte
	controlPlane     *testenv.ControlPlane // nil for a cluster that was there before
}

// openCluster starts a control plane, or takes the current cluster if the environment asks for it.
func openCluster(ctx context.Context, out io.Writer, dir string) (*cluster, error) {
	began := time.Now()
	if os.Getenv("DEMO_CLUSTER") == "current" {
		return currentCluster(ctx, out)
	}
	fmt.Fprintln(out, "Starting a control plane: kube-apiserver and etcd, built from source the first time.")
	controlPlane, err := testenv.StartControlPlane(ctx, dir)
	if err != nil {
		return nil, err
	}
	c := &cluster{kubeconfig: controlPlane.Kubeconfig, controlPlane: controlPlane}
	if err := c.prepare(ctx, controlPlane.Config); err != nil {
		return nil, errors.Join(err, controlPlane.Stop())
	}
	fmt.Fprintf(out, "Control plane is up after %s.\n", time.Since(began).Round(100*time.Millisecond))
	return c, nil
}

func currentCluster(ctx context.Context, out io.Writer) (*cluster, error) {
	c := &cluster{kubeconfig: os.Getenv("KUBECONFIG")}
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("DEMO_CLUSTER=current: read the kubeconfig in $KUBECONFIG: %w", err)
	}
	definitions, err := testenv.Definitions()
	if err != nil {
		return nil, err
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{CRDs: definitions}); err != nil {
		return nil, fmt.Errorf("install CustomResourceDefinitions: %w", err)
	}
	fmt.Fprintf(out, "Using the cluster at %s. Its CustomResourceDefinitions of Pergola stay there afterwards.\n", config.Host)
	return c, c.prepare(ctx, config)
}

// prepare makes a client and the demo's namespace.
func (c *cluster) prepare(ctx context.Context, config *rest.Config) error {
	if err := rest.LoadTLSFiles(config); err != nil {
		return fmt.Errorf("read the cluster's certificates: %w", err)
	}
	scheme, err := testenv.Scheme()
	if err != nil {
		return err
	}
	config.WarningHandler = rest.NoWarnings{}
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if c.targetKubeconfig, err = testenv.InlineKubeconfig(config); err != nil {
		return err
	}
	err = c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace: %w", err)
	}
	return nil
}

// close stops the control plane, or removes the demo's namespace from a cluster that goes on.
func (c *cluster) close(ctx context.Context) error {
	if c.controlPlane != nil {
		return c.controlPlane.Stop()
	}
	err := c.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete namespace: %w", err)
	}
	return nil
}
