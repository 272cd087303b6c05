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
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// What the status of an object is, beside the words of kstatus.
const (
	ready   = "Ready"
	missing = "Missing"
	gone    = "Gone"    // as it should be
	unknown = "Unknown" // it could not be read
)

// readers is how many objects are read at once.
const readers = 8

// Node is an object, and the objects below it.
type Node struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	// Name of the object; empty for objects of the kind that could not be listed.
	Name string `json:"name,omitempty"`
	// Policy that a managed object was applied with; empty for the usual one.
	Policy managedresource.Policy `json:"policy,omitempty"`
	// Status tells how far the object is; that of the DeployItem itself is its phase.
	Status   string  `json:"status"`
	Message  string  `json:"message,omitempty"`
	Children []*Node `json:"children,omitempty"`
}

// Tree reads what an item has deployed, from the cluster of the item and from that of its Target, which openTarget
// connects to. What cannot be read is in the tree, with the reason. Of Secrets nothing but the metadata is read.
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
	_ = group.Wait() // what goes wrong is in the nodes
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
		n.Message = "there is another object of this name instead, which somebody else has created"
	default:
		n.Status, n.Message = readinessOf(object)
	}
	if err == nil {
		n.Children = readChildren(ctx, from, object)
	}
	return n
}

// readObject reads an object; of a Secret the metadata alone.
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

// below are the kinds of objects that controllers of Kubernetes make for those of other kinds.
var below = map[schema.GroupKind]schema.GroupVersionKind{
	{Group: "apps", Kind: "Deployment"}:  {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Kind: "ReplicaSet"}:  {Version: "v1", Kind: "Pod"},
	{Group: "apps", Kind: "StatefulSet"}: {Version: "v1", Kind: "Pod"},
	{Group: "apps", Kind: "DaemonSet"}:   {Version: "v1", Kind: "Pod"},
	{Group: "batch", Kind: "CronJob"}:    {Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "batch", Kind: "Job"}:        {Version: "v1", Kind: "Pod"},
}

// readChildren reads what is below an object, in the order of the names.
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

// belongs reports whether an object belongs to another. ReplicaSets that are kept for a rollback alone do not.
func belongs(object, to *unstructured.Unstructured) bool {
	wanted, said, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	running, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	retired := object.GetKind() == "ReplicaSet" && said && wanted == 0 && running == 0
	owned := func(owner metav1.OwnerReference) bool { return owner.UID == to.GetUID() }
	return !retired && slices.ContainsFunc(object.GetOwnerReferences(), owned)
}

// readinessOf asks kstatus, which Flux and others use, and says of Pods what keeps their containers from starting.
func readinessOf(object *unstructured.Unstructured) (readiness, message string) {
	result, err := status.Compute(object)
	if err != nil {
		return unknown, "its status cannot be understood: " + err.Error()
	}
	readiness, message = string(result.Status), result.Message
	if result.Status == status.CurrentStatus {
		readiness = ready
		if strings.HasPrefix(message, "Resource is ") || message == "Pod is Ready" {
			message = "" // it says nothing
		}
	}
	if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Pod") {
		message = strings.Join(append(hindrances(object), message), "; ")
	}
	return readiness, message
}

// hindrances are why the containers of a Pod do not run, in their order.
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

// Text is a tree for people. No message is cut.
func (n *Node) Text(palette terminal.Palette) string {
	var out strings.Builder
	n.write(&out, palette, "", "")
	return out.String()
}

// write writes a node and those below it. first is what stands before its first line, and rest before the others.
func (n *Node) write(out *strings.Builder, palette terminal.Palette, first, rest string) {
	title := strings.TrimSpace(n.Kind + " " + strings.Trim(n.Namespace+"/"+n.Name, "/"))
	if n.Policy != "" {
		title += " (" + string(n.Policy) + ")"
	}
	message, more, _ := strings.Cut(strings.TrimSpace(n.Message), "\n")
	state := palette.Paint(colourOf(n.Status), terminal.Printable(n.Status))
	fmt.Fprintln(out, strings.TrimSpace(first+terminal.Printable(title)+"  "+state+"  "+terminal.Printable(strings.TrimSpace(message))))
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

// colourOf is how a status or a phase is painted.
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
