// Package pod is what runs a container once: the Pod and the objects that it needs, what is done with them in a
// cluster, and what a Pod shows of how far it has come and why it has failed.
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
	// InstallationLabel tells the deploy items of one cluster from those of others that use the same host cluster.
	InstallationLabel = mark.ContainerInstallation
	// ItemLabel has the UID of the deploy item.
	ItemLabel = mark.ContainerItem
	// RunLabel has the name of the run.
	RunLabel = "container.pergola.dev/run"
	// PartLabel says what an object is good for: one of the parts below.
	PartLabel = "container.pergola.dev/part"
)

// The parts. Those that outlast a run are PartResult and PartState, and PartKept, which is a Pod that is kept for a
// look at it.
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

// Annotations of all objects, which have what may be too long for a label.
const (
	NameAnnotation      = "container.pergola.dev/deployitem-name"
	NamespaceAnnotation = "container.pergola.dev/deployitem-namespace"
	JobAnnotation       = "container.pergola.dev/job"
	// OperationAnnotation of a Pod says what it is run for.
	OperationAnnotation = "container.pergola.dev/operation"
	// EndedAnnotation of a Pod says that main has ended while other containers go on.
	EndedAnnotation = "container.pergola.dev/main-ended"
)

// AcceptLossAnnotation of a deploy item names a run whose state may be lost: the next run begins with the older one.
const AcceptLossAnnotation = "container.pergola.dev/accept-lost-state"

// Landscaper's labels and annotations, for people and programs that look for them, and for states that it has left.
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
	// Installation is that of sdk.HostCluster.
	Installation string
	// PodNamespace is where the Pod is, and all that belongs to it.
	PodNamespace string
	// Namespace, Name and UID of the deploy item, and its generation.
	Namespace, Name string
	UID             types.UID
	Generation      int64
	// JobID is the job that it is for, and Operation what it is run for.
	JobID     string
	Operation v1alpha1.Operation
}

// RunName is the name of the Pod, and the beginning of the names of what belongs to it. It is the same whoever asks, so
// that there cannot be two Pods for one job. It begins with namespace and name of the deploy item, as far as there is
// room, and ends with a hash of all that makes the run what it is.
func (i Identity) RunName() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{string(i.UID), i.JobID, string(i.Operation)}, "\x00")))
	return readable(i.Namespace, i.Name) + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// readable is the part of a name that is for people.
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

// accessName is the name of the Secret with what the wait container needs for its uploads.
func accessName(run string) string { return run + "-access" }

// ResultName is the name of the Secret that the run's result is in.
func ResultName(run string) string { return run + "-result" }

// Labels returns those of a part of the run.
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

// Annotations returns those of all parts.
func (i Identity) Annotations() map[string]string {
	return map[string]string{NameAnnotation: i.Name, NamespaceAnnotation: i.Namespace, JobAnnotation: i.JobID}
}

// installationValue is a label for an installation, of which a host may know nothing.
func installationValue(installation string) string {
	return cmp.Or(installation, installationPlaceholder)
}

// Selector is a label selector, as a request has it.
type Selector string

// OfItem selects all objects of a deploy item.
func OfItem(uid types.UID) Selector { return Selector(ItemLabel + "=" + string(uid)) }

// OfRun selects all objects of a run of a deploy item.
func OfRun(uid types.UID, name string) Selector { return OfItem(uid).and(RunLabel + "=" + name) }

// OfInstallation selects all objects of all deploy items of an installation.
func OfInstallation(installation string) Selector {
	return Selector(InstallationLabel + "=" + installationValue(installation))
}

// ResultOf selects the result of a run.
func ResultOf(uid types.UID, name string) Selector { return OfRun(uid, name).ofPart(PartResult) }

// StateOf selects the state that a run has left.
func StateOf(uid types.UID, name string) Selector { return OfRun(uid, name).ofPart(PartState) }

// Obsolete selects what nobody needs of a run that is over, whatever other runs there are: all that is temporary, and
// its own state and the one that it has begun with unless they are the one that is kept; nil for none.
func Obsolete(uid types.UID, r *v1alpha1.Run, kept *v1alpha1.State) []Selector {
	all := []Selector{Temporary(uid, r.Name)}
	for _, id := range []string{r.Name, idOf(r.Restored)} {
		if id != "" && id != idOf(kept) {
			all = append(all, StateOf(uid, id))
		}
	}
	return all
}

// idOf returns the ID of a state; empty for none, and for one that Landscaper has left.
func idOf(s *v1alpha1.State) string {
	if s == nil {
		return ""
	}
	return s.ID
}

// Temporary selects what does not outlast a run.
func Temporary(uid types.UID, name string) Selector {
	return OfRun(uid, name).and(fmt.Sprintf("%s notin (%s,%s,%s)", PartLabel, PartResult, PartState, PartKept))
}

// Operations are all that an image is run for.
func Operations() []v1alpha1.Operation {
	return []v1alpha1.Operation{v1alpha1.OperationReconcile, v1alpha1.OperationDelete}
}

// KeptPods selects the Pods of other runs than the one that is named, which were kept.
func KeptPods(uid types.UID, lastRun string) Selector {
	return OfItem(uid).and(PartLabel + "=" + PartKept).and(RunLabel + "!=" + lastRun)
}

// LeftByUpstream selects the states that Landscaper has left for the deploy item. Those of this deployer have its own
// labels.
func (i Identity) LeftByUpstream() Selector {
	return Selector(UpstreamTypeLabel + "=" + UpstreamTypeState).
		and(UpstreamItemName + "=" + mark.LabelValue(i.Name)).
		and(UpstreamItemNamespace + "=" + mark.LabelValue(i.Namespace)).and("!" + ItemLabel)
}

// SecretsOf selects the Secrets of a state of the deploy item. Names alone do not tell whose a Secret is: who may write
// the status of the item could name any.
func (i Identity) SecretsOf(s *v1alpha1.State) Selector {
	if len(s.Secrets) > 0 {
		return i.LeftByUpstream()
	}
	return StateOf(i.UID, s.ID)
}

func (s Selector) ofPart(part string) Selector { return s.and(PartLabel + "=" + part) }

func (s Selector) and(requirement string) Selector { return s + "," + Selector(requirement) }
