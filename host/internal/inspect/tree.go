package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// The statuses of objects beside the statuses of kstatus.
const (
	ready   = "Ready"
	missing = "Missing"
	gone    = "Gone"    // intentionally
	unknown = "Unknown" // after a failed read
)

// readers bounds the parallel reads.
const readers = 8

// Node is an object, and the objects below it.
type Node struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	// Name of the object; "" for a failed list of the kind.
	Name string `json:"name,omitempty"`
	// Policy of a managed object; "" for the default.
	Policy managedresource.Policy `json:"policy,omitempty"`
	// Status of the object, or phase of the DeployItem.
	Status   string  `json:"status"`
	Message  string  `json:"message,omitempty"`
	Children []*Node `json:"children,omitempty"`
}

// Tree reads the objects of an item from its target cluster, connected by openTarget, and from the host's cluster.
// Failed reads are nodes with the reason. Of Secrets only the metadata is read.
func Tree(
	ctx context.Context, item *v1alpha1.DeployItem, host client.Reader, openTarget func() (client.Reader, error),
) *Node {
	root := &Node{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.DeployItemGVK.Kind,
		Namespace: item.Namespace, Name: item.Name,
		Status: cmp.Or(phaseOf(item), "(no phase)"), Message: Message(item),
	}
	objects, err := managedObjects(item)
	var target client.Reader
	if slices.ContainsFunc(objects, func(m managedObject) bool { return !m.onHost && m.gone == "" }) {
		target, err = openTarget()
	}
	if err != nil {
		root.Children = []*Node{{Kind: "Objects", Status: unknown, Message: err.Error()}}
		return root
	}
	root.Children = make([]*Node, len(objects))
	var group errgroup.Group
	group.SetLimit(readers)
	for i, m := range objects {
		from := target
		if m.onHost {
			from = host
		}
		group.Go(func() error {
			root.Children[i] = readManaged(ctx, from, m)
			return nil
		})
	}
	_ = group.Wait() // errors are in the nodes
	return root
}

// readManaged reads an object and those below it.
func readManaged(ctx context.Context, from client.Reader, m managedObject) *Node {
	n := &Node{
		APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Policy: m.policy, Status: missing,
	}
	if m.gone != "" {
		n.Status, n.Message = gone, m.gone
		return n
	}
	object, err := readObject(ctx, from, m)
	switch {
	case apierrors.IsNotFound(err) && m.onHost:
		n.Message = "it is not in the cluster of the DeployItem; the host may run containers in another one"
	case apierrors.IsNotFound(err):
		n.Message = "it is not there"
	case meta.IsNoMatchError(err):
		n.Message = "the cluster has no such kind of objects"
	case err != nil:
		n.Status, n.Message = unknown, err.Error()
	case m.UID != "" && m.UID != object.GetUID():
		n.Message = "there is another object of this name instead, with another creator"
	default:
		n.Status, n.Message = readinessOf(object)
	}
	if err == nil {
		n.Children = readChildren(ctx, from, object)
	}
	return n
}

// readObject reads an object, or the metadata of a Secret.
func readObject(ctx context.Context, from client.Reader, m managedObject) (*unstructured.Unstructured, error) {
	kind := schema.FromAPIVersionAndKind(m.APIVersion, m.Kind)
	key, object := client.ObjectKey{Namespace: m.Namespace, Name: m.Name}, &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if kind.GroupKind() != (schema.GroupKind{Kind: "Secret"}) {
		return object, from.Get(ctx, key, object)
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(kind)
	err := from.Get(ctx, key, metadata)
	object.SetUID(metadata.UID)
	object.SetDeletionTimestamp(metadata.DeletionTimestamp)
	return object, err
}

// below has the kind of children for each kind with a controller of Kubernetes.
var below = map[schema.GroupKind]schema.GroupVersionKind{
	{Group: "apps", Kind: "Deployment"}:  {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Kind: "ReplicaSet"}:  {Version: "v1", Kind: "Pod"},
	{Group: "apps", Kind: "StatefulSet"}: {Version: "v1", Kind: "Pod"},
	{Group: "apps", Kind: "DaemonSet"}:   {Version: "v1", Kind: "Pod"},
	{Group: "batch", Kind: "CronJob"}:    {Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "batch", Kind: "Job"}:        {Version: "v1", Kind: "Pod"},
}

// readChildren reads the children of an object, in the order of their names.
func readChildren(ctx context.Context, from client.Reader, object *unstructured.Unstructured) []*Node {
	kind, ok := below[object.GroupVersionKind().GroupKind()]
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
		return []*Node{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Status: unknown, Message: err.Error()}}
	}
	var nodes []*Node
	for i := range list.Items {
		child := &list.Items[i]
		if !belongs(child, object) {
			continue
		}
		n := &Node{
			APIVersion: child.GetAPIVersion(), Kind: child.GetKind(), Namespace: child.GetNamespace(), Name: child.GetName(),
			Children: readChildren(ctx, from, child),
		}
		n.Status, n.Message = readinessOf(child)
		nodes = append(nodes, n)
	}
	return nodes
}

// belongs reports whether an object is a child of another object, except for old ReplicaSets.
func belongs(object, to *unstructured.Unstructured) bool {
	wanted, said, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	running, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	retired := object.GetKind() == "ReplicaSet" && said && wanted == 0 && running == 0
	owned := func(owner metav1.OwnerReference) bool { return owner.UID == to.GetUID() }
	return !retired && slices.ContainsFunc(object.GetOwnerReferences(), owned)
}

// readinessOf returns the status and message of kstatus. Messages of Pods have the problems of their containers.
func readinessOf(object *unstructured.Unstructured) (readiness, message string) {
	result, err := status.Compute(object)
	if err != nil {
		return unknown, "its status cannot be understood: " + err.Error()
	}
	readiness, message = string(result.Status), result.Message
	if result.Status == status.CurrentStatus {
		readiness = ready
		if strings.HasPrefix(message, "Resource is ") || message == "Pod is Ready" {
			message = "" // without information
		}
	}
	if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Pod") {
		message = strings.Join(append(hindrances(object), message), "; ")
	}
	return readiness, message
}

// hindrances returns the reasons why containers of a Pod do not run, in their order.
func hindrances(object *unstructured.Unstructured) []string {
	pod := &corev1.Pod{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, pod) != nil {
		return nil
	}
	var why []string
	add := func(parts ...string) {
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
		why = append(why, strings.Join(parts, ": "))
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting, terminated := c.State.Waiting, c.State.Terminated
		switch {
		case waiting != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waiting.Reason):
			add("container "+c.Name, waiting.Reason, waiting.Message)
		case terminated != nil && terminated.ExitCode != 0:
			add("container "+c.Name, fmt.Sprintf("has ended with code %d", terminated.ExitCode), terminated.Reason)
		}
	}
	return why
}

// Text formats the tree, with complete messages.
func (n *Node) Text(palette terminal.Palette) string {
	var out strings.Builder
	n.write(&out, palette, "", "")
	return out.String()
}

// write writes a node and its children, with a prefix for the first line and another for the rest.
func (n *Node) write(out *strings.Builder, palette terminal.Palette, first, rest string) {
	title := strings.TrimSpace(n.Kind + " " + strings.Trim(n.Namespace+"/"+n.Name, "/"))
	if n.Policy != "" {
		title += " (" + string(n.Policy) + ")"
	}
	message, more, _ := strings.Cut(strings.TrimSpace(n.Message), "\n")
	state := palette.Paint(colourOf(n.Status), text.Printable(n.Status))
	message = text.Printable(strings.TrimSpace(message))
	fmt.Fprintln(out, strings.TrimRight(first+text.Printable(title)+"  "+state+"  "+message, " "))
	if len(n.Children) > 0 {
		out.WriteString(terminal.Indented(rest+"│     ", more))
	} else {
		out.WriteString(terminal.Indented(rest+"      ", more))
	}
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.write(out, palette, rest+"└─ ", rest+"   ")
		} else {
			child.write(out, palette, rest+"├─ ", rest+"│  ")
		}
	}
}

// colourOf returns the colour of a status or a phase.
func colourOf(of string) terminal.Colour {
	switch of {
	case ready, string(v1alpha1.DeployItemPhaseSucceeded):
		return terminal.Green
	case missing, string(status.FailedStatus), string(v1alpha1.DeployItemPhaseDeleteFailed):
		return terminal.Red
	case unknown, gone:
		return terminal.Grey
	default:
		return terminal.Yellow
	}
}
