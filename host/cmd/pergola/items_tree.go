package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// readers is how many objects are read at once.
const readers = 8

func newItemsTreeCommand() *cobra.Command {
	cluster := &clusterFlags{}
	cmd := &cobra.Command{
		Use:   "tree ITEM",
		Short: "Show what a DeployItem has deployed, how far each object is, and why",
		Long: `Show what a DeployItem has deployed, how far each object is, and why.

The objects are those that the deployer keeps in the status of the item: manifests, the objects of a chart, the Pod of
a container. They are read from the Target of the item with its credentials, which you must be allowed to read, as for
"pergola items diff". Below Deployments and the like are the ReplicaSets, Jobs and Pods that belong to them.

An object is Ready, InProgress, Failed or Terminating by the rules of kstatus, or Missing, or Gone after it has done
what it was for. What cannot be read is Unknown, with the reason. Of Secrets nothing but the metadata is read.`,
		Example: `  pergola items tree my-item -n my-namespace
  pergola items tree my-item --color always | less -R`,
		Args: arguments(1),
	}
	flags := cmd.Flags()
	output := addOutput(flags, formatYAML)
	colour := addColour(flags)
	cluster.addTo(flags)
	cluster.addTargetsTo(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, item, err := cluster.read(cmd.Context(), args[0])
		if err != nil {
			return asItems(err)
		}
		root, out := c.tree(cmd.Context(), item), cmd.OutOrStdout()
		return asItems(printAs(out, output.value, root, func(bool) string { return root.Text(paletteOf(colour.value, out)) }))
	}
	return cmd
}

// tree reads the tree of an item. What cannot be read is in it, with the reason.
func (c *userCluster) tree(ctx context.Context, item *v1alpha1.DeployItem) *inspect.Node {
	objects, ok := inspect.ManagedObjects(item)
	if !ok {
		return inspect.Root(item, errors.New("its deployer keeps none in the status of the item"))
	}
	var target client.Reader
	if slices.ContainsFunc(objects, func(m inspect.ManagedObject) bool { return !m.OnHost && m.Gone == "" }) {
		var err error
		if target, err = c.targetOf(ctx, item); err != nil {
			return inspect.Root(item, withRights(err))
		}
	}
	root := inspect.Root(item, nil)
	root.Children = make([]*inspect.Node, len(objects))
	var group errgroup.Group
	group.SetLimit(readers)
	for i, m := range objects {
		from := target
		if m.OnHost {
			from = c
		}
		group.Go(func() error {
			root.Children[i] = readNode(ctx, from, m)
			return nil
		})
	}
	_ = group.Wait() // what goes wrong is in the nodes
	return root
}

// targetOf returns a reader of the Target of an item.
func (c *userCluster) targetOf(ctx context.Context, item *v1alpha1.DeployItem) (client.Reader, error) {
	target, err := c.resolver().Target(ctx, item)
	if err != nil {
		return nil, err
	}
	if target == nil {
		return nil, errors.New("the item has no Target, so that nobody knows where they are")
	}
	var content struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	name := target.Target.Name
	if err := json.Unmarshal([]byte(target.Content), &content); err != nil || target.Target.Spec.Type != v1alpha1.KubernetesClusterTargetType {
		return nil, fmt.Errorf("the Target %q is of type %s, and objects can be read from a %s only", name, target.Target.Spec.Type, v1alpha1.KubernetesClusterTargetType)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content.Kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the Target %q: %w", name, err)
	}
	config.QPS, config.UserAgent, config.WarningHandler = -1, c.config.UserAgent, rest.NoWarnings{}
	reader, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the Target %q: %w", name, err)
	}
	return reader, nil
}

// readNode reads an object and those below it. Of a Secret the metadata alone is read.
func readNode(ctx context.Context, from client.Reader, m inspect.ManagedObject) *inspect.Node {
	if m.Gone != "" {
		return inspect.NodeOf(m, nil, nil)
	}
	kind := schema.FromAPIVersionAndKind(m.APIVersion, m.Kind)
	key, object := client.ObjectKey{Namespace: m.Namespace, Name: m.Name}, &unstructured.Unstructured{}
	var err error
	if kind.GroupKind() == (schema.GroupKind{Kind: "Secret"}) {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(kind)
		err = from.Get(ctx, key, metadata)
		object.SetUID(metadata.UID)
		object.SetDeletionTimestamp(metadata.DeletionTimestamp)
	} else {
		object.SetGroupVersionKind(kind)
		err = from.Get(ctx, key, object)
	}
	object.SetGroupVersionKind(kind)
	node := inspect.NodeOf(m, object, err)
	if err == nil {
		node.Children = readChildren(ctx, from, object)
	}
	return node
}

// readChildren reads what is below an object.
func readChildren(ctx context.Context, from client.Reader, object *unstructured.Unstructured) []*inspect.Node {
	kind, ok := inspect.Below[object.GroupVersionKind().GroupKind()]
	if !ok {
		return nil
	}
	options := []client.ListOption{client.InNamespace(object.GetNamespace())}
	if wanted, found, _ := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels"); found {
		options = append(options, client.MatchingLabels(wanted))
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := from.List(ctx, list, options...); err != nil {
		return []*inspect.Node{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Status: inspect.Unknown, Message: err.Error()}}
	}
	var nodes []*inspect.Node
	for i := range list.Items { // in the order of their names
		if child := &list.Items[i]; inspect.Belongs(child, object) {
			node := inspect.ChildOf(child)
			node.Children = readChildren(ctx, from, child)
			nodes = append(nodes, node)
		}
	}
	return nodes
}
