// Package pod runs a container once: it has the Pod and its other objects, their requests to a cluster, and the
// progress and the failure of a Pod by its status.
package pod

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

// Labels of all objects, besides those of package owner.
const (
	// InstallationLabel tells the items of one cluster from those of others with the same host cluster.
	InstallationLabel = mark.ContainerInstallation
	// ItemLabel has the UID of the item.
	ItemLabel = mark.ContainerItem
	// RunLabel has the name of the run.
	RunLabel = "container.pergola.dev/run"
	// PartLabel has the purpose of an object: one of the parts below.
	PartLabel = "container.pergola.dev/part"
)

// The parts. PartResult, PartState and PartKept outlast a run; the last one is a Pod kept for inspection.
const (
	PartPod    = "pod"
	PartKept   = "kept-pod"
	PartInput  = "input"
	PartAccess = "access"
	PartPull   = "pull"
	PartRights = "rights"
	PartResult = "result"
	PartState  = "state"
)

// Annotations of all objects, for texts perhaps too long for a label.
const (
	NameAnnotation      = "container.pergola.dev/deployitem-name"
	NamespaceAnnotation = "container.pergola.dev/deployitem-namespace"
	JobAnnotation       = "container.pergola.dev/job"
	// OperationAnnotation of a Pod has the operation of the run.
	OperationAnnotation = "container.pergola.dev/operation"
	// EndedAnnotation of a Pod: main has ended while other containers go on.
	EndedAnnotation = "container.pergola.dev/main-ended"
)

// AcceptLossAnnotation of an item accepts the loss of the named run's state: the next run begins with the older one.
const AcceptLossAnnotation = "container.pergola.dev/accept-lost-state"

// Landscaper's labels and annotations, for users and programs in search of them, and for states left by Landscaper.
const (
	upstream                = "container.deployer.landscaper.gardener.cloud/"
	upstreamItem            = "deployitem." + upstream
	UpstreamNameLabel       = upstream + "name"
	UpstreamTypeLabel       = upstream + "type"
	UpstreamTypeState       = "state"
	UpstreamItemName        = upstreamItem + "name"
	UpstreamItemNamespace   = upstreamItem + "namespace"
	UpstreamItemGeneration  = upstreamItem + "generation"
	StateIDAnnotation       = upstream + "uuid"
	ForceCleanupAnnotation  = upstream + "force-cleanup"
	Finalizer               = upstream + "finalizer"
	hashLength              = 10
	maxName                 = 63 // it is also the host name of the Pod
	maxReadable             = maxName - hashLength - 1
	readableNamespacePart   = maxReadable / 2
	unreadable              = "item"
	installationPlaceholder = mark.NoInstallation
)

// Identity tells one run from all others.
type Identity struct {
	// Installation comes from sdk.HostCluster.
	Installation string
	// PodNamespace is the namespace of the Pod and all its objects.
	PodNamespace string
	// Namespace, Name and UID of the item, and its generation.
	Namespace, Name string
	UID             types.UID
	Generation      int64
	// JobID and Operation of the run's job.
	JobID     string
	Operation v1alpha1.Operation
}

// RunName returns the name of the Pod, and the beginning of the names of its objects. It is the same in all calls and
// replicas, to rule out two Pods for one job. It begins with namespace and name of the item, as far as there is room,
// and ends with a hash of the UID, the job and the operation.
func (i Identity) RunName() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(i.UID), i.JobID, string(i.Operation)}, "\x00")))
	return readable(i.Namespace, i.Name) + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// readable returns the readable part of a name.
func readable(namespace, name string) string {
	if len(namespace)+1+len(name) > maxReadable && len(namespace) > readableNamespacePart {
		namespace = namespace[:max(readableNamespacePart, maxReadable-1-len(name))]
	}
	text := strings.ReplaceAll(namespace+"-"+name, ".", "-")
	text = strings.Trim(text[:min(len(text), maxReadable)], "-")
	if len(validation.IsDNS1123Label(text)) > 0 {
		return unreadable
	}
	return text
}

// Names of the objects of a run.
func inputName(run string, number int) string { return run + "-input-" + strconv.Itoa(number) }
func stateName(run string, number int) string { return run + "-state-" + strconv.Itoa(number) }
func oldStateName(run string, number int) string {
	return run + "-old-state-" + strconv.Itoa(number)
}
func pullName(run string) string { return run + "-pull" }

// accessName returns the name of the wait container's Secret for its uploads.
func accessName(run string) string { return run + "-access" }

// ResultName returns the name of the Secret with the run's result.
func ResultName(run string) string { return run + "-result" }

// Labels returns the labels of a part of the run.
func (i Identity) Labels(part string) map[string]string {
	all := owner.Owner{Namespace: i.Namespace, Name: i.Name}.Labels()
	all[InstallationLabel] = installationValue(i.Installation)
	all[ItemLabel] = string(i.UID)
	all[RunLabel] = i.RunName()
	all[PartLabel] = part
	switch part {
	case PartPod:
		all[UpstreamItemGeneration] = strconv.FormatInt(i.Generation, 10)
	case PartState:
		all[UpstreamTypeLabel] = UpstreamTypeState
	default:
		return all
	}
	all[UpstreamNameLabel] = mark.LabelValue(i.Name)
	all[UpstreamItemName], all[UpstreamItemNamespace] = mark.LabelValue(i.Name), mark.LabelValue(i.Namespace)
	return all
}

// Annotations returns the annotations of all parts.
func (i Identity) Annotations() map[string]string {
	return map[string]string{NameAnnotation: i.Name, NamespaceAnnotation: i.Namespace, JobAnnotation: i.JobID}
}

// installationValue returns the label of an installation; empty if the host does not know it.
func installationValue(installation string) string {
	return cmp.Or(installation, installationPlaceholder)
}

// Selector is a label selector, in the format of requests.
type Selector string

// OfItem selects all objects of an item.
func OfItem(uid types.UID) Selector { return Selector(ItemLabel + "=" + string(uid)) }

// OfRun selects all objects of a run of an item.
func OfRun(uid types.UID, name string) Selector { return OfItem(uid).and(RunLabel + "=" + name) }

// OfInstallation selects all objects of all items of an installation.
func OfInstallation(installation string) Selector {
	return Selector(InstallationLabel + "=" + installationValue(installation))
}

// ResultOf selects the result of a run.
func ResultOf(uid types.UID, name string) Selector { return OfRun(uid, name).ofPart(PartResult) }

// StateOf selects the state left by a run.
func StateOf(uid types.UID, name string) Selector { return OfRun(uid, name).ofPart(PartState) }

// Obsolete selects the unneeded objects of an ended run, whatever other runs there are: everything temporary, its own
// state and the state from its start, except the kept one; kept is nil for none.
func Obsolete(uid types.UID, r *v1alpha1.Run, kept *v1alpha1.State) []Selector {
	all := []Selector{Temporary(uid, r.Name)}
	for _, id := range []string{r.Name, idOf(r.Restored)} {
		if id != "" && id != idOf(kept) {
			all = append(all, StateOf(uid, id))
		}
	}
	return all
}

// idOf returns the ID of a state; empty for none, and for one of Landscaper.
func idOf(s *v1alpha1.State) string {
	if s == nil {
		return ""
	}
	return s.ID
}

// Temporary selects the objects of a run without those outlasting it.
func Temporary(uid types.UID, name string) Selector {
	return OfRun(uid, name).and(fmt.Sprintf("%s notin (%s,%s,%s)", PartLabel, PartResult, PartState, PartKept))
}

// Operations returns all operations of an image.
func Operations() []v1alpha1.Operation {
	return []v1alpha1.Operation{v1alpha1.OperationReconcile, v1alpha1.OperationDelete}
}

// KeptPods selects the kept Pods of all runs but lastRun.
func KeptPods(uid types.UID, lastRun string) Selector {
	return OfItem(uid).and(PartLabel + "=" + PartKept).and(RunLabel + "!=" + lastRun)
}

// LeftByUpstream selects Landscaper's states of the item. States of this deployer have its own labels.
func (i Identity) LeftByUpstream() Selector {
	return Selector(UpstreamTypeLabel + "=" + UpstreamTypeState).
		and(UpstreamItemName + "=" + mark.LabelValue(i.Name)).
		and(UpstreamItemNamespace + "=" + mark.LabelValue(i.Namespace)).and("!" + ItemLabel)
}

// SecretsOf selects the Secrets of a state of the item. Names alone do not prove the owner of a Secret: the status of
// the item, and so its writers, could name any.
func (i Identity) SecretsOf(s *v1alpha1.State) Selector {
	if len(s.Secrets) > 0 {
		return i.LeftByUpstream()
	}
	return StateOf(i.UID, s.ID)
}

func (s Selector) ofPart(part string) Selector { return s.and(PartLabel + "=" + part) }

func (s Selector) and(requirement string) Selector { return s + "," + Selector(requirement) }
