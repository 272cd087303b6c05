package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Readiness tells how far an object is.
type Readiness string

// The values of Readiness.
const (
	// Ready: the object is as its spec says.
	Ready Readiness = "Ready"
	// InProgress: it is on its way there.
	InProgress Readiness = "InProgress"
	// Broken: it says itself that it does not get there.
	Broken Readiness = "Failed"
	// Terminating: it is being deleted.
	Terminating Readiness = "Terminating"
	// Missing: it is not there.
	Missing Readiness = "Missing"
	// Gone: it is not there any more, as it should be.
	Gone Readiness = "Gone"
	// Unknown: it could not be read.
	Unknown Readiness = "Unknown"
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
	// Status is the readiness of the object; that of the DeployItem itself is its phase.
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
	// Children in the order of the deployer, and below managed objects in that of their names.
	Children []*Node `json:"children,omitempty"`
}

// Root returns the node of an item, without children. problem says why its objects could not be read; nil if they could.
func Root(item *v1alpha1.DeployItem, problem error) *Node {
	s := Summarize(item)
	root := &Node{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.DeployItemGVK.Kind, Namespace: item.Namespace, Name: item.Name,
		Status: cmp.Or(phaseText(s), "(no phase)"), Message: s.Message,
	}
	if problem != nil {
		root.Children = []*Node{{Kind: "Objects", Status: string(Unknown), Message: problem.Error()}}
	}
	return root
}

// NodeOf returns the node of a managed object: as it was read, or with the error of that.
func NodeOf(m ManagedObject, object *unstructured.Unstructured, err error) *Node {
	n := &Node{APIVersion: m.APIVersion, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
	if m.Policy != managedresource.PolicyManage {
		n.Policy = m.Policy
	}
	switch {
	case m.Gone != "":
		n.set(Gone, m.Gone)
	case apierrors.IsNotFound(err) && m.OnHost:
		n.set(Missing, "it is not in the cluster of the DeployItem; the host may run containers in another one")
	case apierrors.IsNotFound(err):
		n.set(Missing, "it is not there")
	case meta.IsNoMatchError(err):
		n.set(Missing, "the cluster has no such kind of objects")
	case err != nil:
		n.set(Unknown, err.Error())
	default:
		n.set(readinessOf(object))
		if m.UID != "" && m.UID != object.GetUID() {
			n.set(Missing, "there is another object of this name instead, which somebody else has created")
		}
	}
	return n
}

func (n *Node) set(readiness Readiness, message string) {
	n.Status, n.Message = string(readiness), message
}

// ChildOf returns the node of an object that belongs to another.
func ChildOf(object *unstructured.Unstructured) *Node {
	n := &Node{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
	n.set(readinessOf(object))
	return n
}

// Unlisted returns the node for objects of a kind that could not be listed.
func Unlisted(kind schema.GroupVersionKind, err error) *Node {
	n := &Node{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}
	n.set(Unknown, err.Error())
	return n
}

// readinessOf computes readiness as kstatus does, which Flux and others use, and says of Pods what keeps their containers from starting.
func readinessOf(object *unstructured.Unstructured) (Readiness, string) {
	result, err := status.Compute(object)
	if err != nil {
		return Unknown, "its status cannot be understood: " + err.Error()
	}
	message := result.Message
	if result.Status == status.CurrentStatus && (strings.HasPrefix(message, "Resource is ") || message == "Pod is Ready") {
		message = "" // it says nothing
	}
	if why := hindrances(object); len(why) > 0 {
		message = strings.Join(append(why, message), "; ")
	}
	switch result.Status {
	case status.CurrentStatus:
		return Ready, message
	case status.FailedStatus:
		return Broken, message
	case status.TerminatingStatus:
		return Terminating, message
	case status.InProgressStatus:
		return InProgress, message
	default:
		return Unknown, message
	}
}

// hindrances are why the containers of a Pod do not run, in the order of their list.
func hindrances(object *unstructured.Unstructured) []string {
	if object.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Pod"}) {
		return nil
	}
	var why []string
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		containers, _, _ := unstructured.NestedSlice(object.Object, "status", list)
		for _, c := range containers {
			container, _ := c.(map[string]any)
			name, _, _ := unstructured.NestedString(container, "name")
			reason, _, _ := unstructured.NestedString(container, "state", "waiting", "reason")
			message, _, _ := unstructured.NestedString(container, "state", "waiting", "message")
			if reason != "" && reason != "ContainerCreating" && reason != "PodInitializing" {
				why = append(why, fmt.Sprintf("container %s: %s", name, reason)+prefixed(": ", message))
			}
			code, _, _ := unstructured.NestedInt64(container, "state", "terminated", "exitCode")
			if reason, _, _ := unstructured.NestedString(container, "state", "terminated", "reason"); code != 0 {
				why = append(why, fmt.Sprintf("container %s: has ended with code %d", name, code)+prefixed(": ", reason))
			}
		}
	}
	return why
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

// Below tells which objects can be below one: those of the kind, in its namespace, with the labels. false for none.
func Below(object *unstructured.Unstructured) (kind schema.GroupVersionKind, selector labels.Selector, ok bool) {
	kind, ok = below[object.GroupVersionKind().GroupKind()]
	if !ok {
		return kind, nil, false
	}
	content, _, _ := unstructured.NestedMap(object.Object, "spec", "selector")
	var wanted metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &wanted); err != nil || len(content) == 0 {
		return kind, labels.Everything(), true
	}
	selector, err := metav1.LabelSelectorAsSelector(&wanted)
	if err != nil {
		return kind, labels.Everything(), true
	}
	return kind, selector, true
}

// Children returns those of some objects that belong to one, in the order of their names. Old ReplicaSets without Pods are left out.
func Children(of *unstructured.Unstructured, objects []unstructured.Unstructured) []*unstructured.Unstructured {
	var children []*unstructured.Unstructured
	for i := range objects {
		o := &objects[i]
		belongs := slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return owner.UID == of.GetUID() })
		if belongs && !retired(o) {
			children = append(children, o)
		}
	}
	slices.SortFunc(children, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return children
}

// retired tells whether an object is a ReplicaSet that is kept for a rollback alone.
func retired(object *unstructured.Unstructured) bool {
	wanted, said, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	there, _, _ := unstructured.NestedInt64(object.Object, "status", "replicas")
	return object.GetKind() == "ReplicaSet" && said && wanted == 0 && there == 0
}

// Text is a tree for people. No message is cut.
func (n *Node) Text(palette terminal.Palette) string {
	var out strings.Builder
	n.write(&out, palette, "", "")
	return out.String()
}

// write writes a node and those below it. first is what stands before its first line, and rest before the others.
func (n *Node) write(out *strings.Builder, palette terminal.Palette, first, rest string) {
	name := strings.Trim(n.Namespace+"/"+n.Name, "/")
	title := terminal.Printable(strings.TrimSpace(n.Kind + " " + name))
	if n.Policy != "" {
		title += terminal.Printable(" (" + string(n.Policy) + ")")
	}
	bars := rest
	if len(n.Children) > 0 {
		bars += "│ "
	} else {
		bars += "  "
	}
	lines := strings.Split(strings.TrimSpace(n.Message), "\n")
	status := palette.Paint(colourOf(n.Status), terminal.Printable(n.Status))
	fmt.Fprintln(out, strings.TrimSpace(palette.Paint(terminal.Grey, first)+title+"  "+status+"  "+terminal.Printable(lines[0])))
	for _, line := range lines[1:] {
		out.WriteString(palette.Paint(terminal.Grey, bars) + "    " + terminal.Printable(strings.TrimRight(line, "\r")) + "\n")
	}
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			child.write(out, palette, rest+"└─ ", rest+"   ")
			continue
		}
		child.write(out, palette, rest+"├─ ", rest+"│  ")
	}
}

// colourOf is how a readiness or a phase is painted.
func colourOf(status string) terminal.Colour {
	switch status {
	case string(Ready), string(v1alpha1.DeployItemPhaseSucceeded):
		return terminal.Green
	case string(Broken), string(Missing), string(v1alpha1.DeployItemPhaseDeleteFailed):
		return terminal.Red
	case string(Unknown), string(Gone):
		return terminal.Grey
	default:
		return terminal.Yellow
	}
}
