package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// namespace is where the demo's objects live.
const namespace = "pergola-demo"

// The images of the container example, which nobody can pull.
const (
	helperImage = "localhost/pergola-container-helper:1"
	stepImage   = "localhost/step:1"
)

// establishTimeout is how long the API server may take for new kinds.
const establishTimeout = 30 * time.Second

// cluster is where the demo takes place: both the cluster with the DeployItems and the target.
type cluster struct {
	client           client.Client
	kubeconfig       string
	targetKubeconfig []byte
	controlPlane     *testenv.ControlPlane // nil for a cluster that was there before, and for one with a node
	node             *testenv.Node         // nil for a cluster that cannot run Pods, or was there before
}

// openCluster starts a control plane, or takes the current cluster if the environment asks for it.
func openCluster(ctx context.Context, out io.Writer, dir string) (*cluster, error) {
	began := time.Now()
	if os.Getenv("DEMO_CLUSTER") == "current" {
		return currentCluster(ctx, out)
	}
	fmt.Fprintln(out, "Starting a control plane: kube-apiserver and etcd, built from source the first time.")
	c, err := nodeCluster(ctx, dir)
	if err == nil {
		fmt.Fprintf(out, "Control plane and a node for Pods are up after %s.\n", time.Since(began).Round(100*time.Millisecond))
	}
	if !errors.Is(err, testenv.ErrNoNode) {
		return c, err
	}
	fmt.Fprintf(out, "There will be no container item: %v\n", err)
	controlPlane, err := testenv.StartControlPlane(ctx, dir)
	if err != nil {
		return nil, err
	}
	c = &cluster{kubeconfig: controlPlane.Kubeconfig, controlPlane: controlPlane}
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
	fmt.Fprintf(out, "Using the cluster at %s. CustomResourceDefinitions that the demo creates stay there afterwards.\n", config.Host)
	fmt.Fprintln(out, "There will be no container item: the demo's images are not on that cluster.")
	return c, c.prepare(ctx, config)
}

// refuseToIntrude ends the demo before it changes anything on a cluster where that could do harm: its host would carry out the
// items of others, and beside a Landscaper set jobs that are Landscaper's to set.
func refuseToIntrude(ctx context.Context, cl client.Client) error {
	items := &v1alpha1.DeployItemList{}
	err := cl.List(ctx, items)
	if err != nil && !gone(err) {
		return fmt.Errorf("look for deploy items: %w", err)
	}
	if len(items.Items) > 0 {
		return fmt.Errorf("the cluster has %d DeployItems already, such as %s/%s, which the demo would carry out; use another cluster",
			len(items.Items), items.Items[0].Namespace, items.Items[0].Name)
	}
	landscaper := &apiextensionsv1.CustomResourceDefinition{}
	err = cl.Get(ctx, client.ObjectKey{Name: "installations." + v1alpha1.GroupName}, landscaper)
	if err == nil {
		return errors.New("a Landscaper is installed in the cluster, beside which the demo must not set jobs; use another cluster")
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for a Landscaper: %w", err)
	}
	return nil
}

// createDefinitions creates the CustomResourceDefinitions that are missing and changes none that are there.
func createDefinitions(ctx context.Context, config *rest.Config, cl client.Client) error {
	definitions, err := testenv.Definitions()
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		if err := cl.Create(ctx, definition); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create CustomResourceDefinition: %w", err)
		}
	}
	if err := envtest.WaitForCRDs(config, definitions, envtest.CRDInstallOptions{
		MaxTime: establishTimeout, PollInterval: 100 * time.Millisecond,
	}); err != nil {
		return fmt.Errorf("wait for CustomResourceDefinitions: %w", err)
	}
	return nil
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
	if err := refuseToIntrude(ctx, c.client); err != nil {
		return err
	}
	if err := createDefinitions(ctx, config, c.client); err != nil {
		return err
	}
	// The demo removes the namespace in the end, so it must be its own.
	if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("create a namespace for the demo: %w", err)
	}
	return nil
}

// nodeCluster starts a cluster with a node, which has the images of the container example. The error is testenv.ErrNoNode on a machine that
// cannot run one.
func nodeCluster(ctx context.Context, dir string) (*cluster, error) {
	files := filepath.Join(dir, "node")
	if err := os.Mkdir(files, 0o700); err != nil {
		return nil, fmt.Errorf("create directory of the node: %w", err)
	}
	node, err := testenv.StartNode(ctx, files)
	if err != nil {
		return nil, err
	}
	c := &cluster{kubeconfig: filepath.Join(dir, "kubeconfig"), node: node}
	err = c.prepare(ctx, node.Config)
	if err == nil {
		err = os.WriteFile(c.kubeconfig, c.targetKubeconfig, 0o600)
	}
	if err == nil {
		err = c.prepareForContainers(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// prepareForContainers has the images on the node, and creates what the documentation has an operator create.
func (c *cluster) prepareForContainers(ctx context.Context) error {
	for image, pkg := range map[string]string{helperImage: "./plugins/container/helper", stepImage: "./test/images/step"} {
		if err := c.node.Image(ctx, image, pkg); err != nil {
			return err
		}
	}
	objects, err := testenv.Objects("docs/container-rights.yaml")
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := c.client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// close stops the control plane, or removes the demo's namespace from a cluster that goes on.
func (c *cluster) close(ctx context.Context) error {
	switch {
	case c.node != nil:
		return c.node.Stop(ctx)
	case c.controlPlane != nil:
		return c.controlPlane.Stop()
	}
	err := c.client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err := client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete namespace: %w", err)
	}
	return nil
}
