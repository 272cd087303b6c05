package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// How far an object is, beside the words of kstatus.
const (
	ready   = "Ready"
	failing = "Failed"
	missing = "Missing"
	gone    = "Gone" // as it should be
	// Unknown: it could not be read.
	Unknown = "Unknown"
)

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

// Root returns the node of an item. problem says why its objects could not be read; nil if they could.
func Root(item *v1alpha1.DeployItem, problem error) *Node {
	root := &Node{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.DeployItemGVK.Kind, Namespace: item.Namespace, Name: item.Name,
		Status: cmp.Or(phaseOf(item), "(no phase)"), Message: Message(item),
	}
	if problem != nil {
		root.Children = []*Node{{Kind: "Objects", Status: Unknown, Message: problem.Error()}}
	}
	return root
}

// NodeOf returns the node of a managed object: as it was read, or with the error of that.
func NodeOf(m ManagedObject, object *unstructured.Unstructured, err error) *Node {
	n := &Node{APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name, Status: missing}
	if m.Policy != managedresource.PolicyManage {
		n.Policy = m.Policy
	}
	switch {
	case m.Gone != "":
		n.Status, n.Message = gone, m.Gone
	case apierrors.IsNotFound(err) && m.OnHost:
		n.Message = "it is not in the cluster of the DeployItem; the host may run containers in another one"
	case apierrors.IsNotFound(err):
		n.Message = "it is not there"
	case meta.IsNoMatchError(err):
		n.Message = "the cluster has no such kind of objects"
	case err != nil:
		n.Status, n.Message = Unknown, err.Error()
	case m.UID != "" && m.UID != object.GetUID():
		n.Message = "there is another object of this name instead, which somebody else has created"
	default:
		n.Status, n.Message = readinessOf(object)
	}
	return n
}

// ChildOf returns the node of an object that belongs to another.
func ChildOf(object *unstructured.Unstructured) *Node {
	n := &Node{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
	n.Status, n.Message = readinessOf(object)
	return n
}

// readinessOf asks kstatus, which Flux and others use, and says of Pods what keeps their containers from starting.
func readinessOf(object *unstructured.Unstructured) (readiness, message string) {
	result, err := status.Compute(object)
	if err != nil {
		return Unknown, "its status cannot be understood: " + err.Error()
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
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting, terminated := c.State.Waiting, c.State.Terminated
		switch {
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing":
			why = append(why, fmt.Sprintf("container %s: %s", c.Name, waiting.Reason)+prefixed(": ", waiting.Message))
		case terminated != nil && terminated.ExitCode != 0:
			why = append(why, fmt.Sprintf("container %s: has ended with code %d", c.Name, terminated.ExitCode)+prefixed(": ", terminated.Reason))
		}
	}
	return why
}

// Below are the kinds of objects that controllers of Kubernetes make for those of other kinds.
var Below = map[schema.GroupKind]schema.GroupVersionKind{
	{Group: "apps", Kind: "Deployment"}:  {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
	{Group: "apps", Kind: "ReplicaSet"}:  {Version: "v1", Kind: "Pod"},
	{Group: "apps", Kind: "StatefulSet"}: {Version: "v1", Kind: "Pod"},
	{Group: "apps", Kind: "DaemonSet"}:   {Version: "v1", Kind: "Pod"},
	{Group: "batch", Kind: "CronJob"}:    {Group: "batch", Version: "v1", Kind: "Job"},
	{Group: "batch", Kind: "Job"}:        {Version: "v1", Kind: "Pod"},
}

// Belongs tells whether an object belongs to another. ReplicaSets that are kept for a rollback alone do not.
func Belongs(object, to *unstructured.Unstructured) bool {
	wanted, said, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	there, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	retired := object.GetKind() == "ReplicaSet" && said && wanted == 0 && there == 0
	return !retired && slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == to.GetUID() })
}

// Text is a tree for people. No message is cut.
func (n *Node) Text(palette Palette) string {
	var out strings.Builder
	n.write(&out, palette, "", "")
	return out.String()
}

// write writes a node and those below it. first is what stands before its first line, and rest before the others.
func (n *Node) write(out *strings.Builder, palette Palette, first, rest string) {
	title := strings.TrimSpace(n.Kind + " " + strings.Trim(n.Namespace+"/"+n.Name, "/"))
	if n.Policy != "" {
		title += " (" + string(n.Policy) + ")"
	}
	lines := strings.Split(strings.TrimSpace(n.Message), "\n")
	state := palette.Paint(colourOf(n.Status), Printable(n.Status))
	fmt.Fprintln(out, strings.TrimSpace(first+Printable(title)+"  "+state+"  "+Printable(lines[0])))
	below := rest + "  "
	if len(n.Children) > 0 {
		below = rest + "│ "
	}
	for _, line := range lines[1:] {
		out.WriteString(below + "    " + Printable(strings.TrimRight(line, "\r")) + "\n")
	}
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.write(out, palette, rest+"└─ ", rest+"   ")
			continue
		}
		child.write(out, palette, rest+"├─ ", rest+"│  ")
	}
}

// colourOf is how a status or a phase is painted.
func colourOf(status string) Colour {
	switch status {
	case ready, string(v1alpha1.DeployItemPhaseSucceeded):
		return Green
	case failing, missing, string(v1alpha1.DeployItemPhaseDeleteFailed):
		return Red
	case Unknown, gone:
		return Grey
	default:
		return Yellow
	}
}
