package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const (
	// LabelReplica is "true" on the Leases of replicas.
	LabelReplica = "host.pergola.dev/replica"
	// LabelGroup tells the group of the replica, as GroupLabel writes it.
	LabelGroup = "host.pergola.dev/group"
	// AnnotationPlugins has the names of the plugins that the replica serves, sorted and separated by commas.
	AnnotationPlugins = "host.pergola.dev/plugins"
	// annotationLeaving is "true" on the Lease of a replica that takes no new work.
	annotationLeaving = "host.pergola.dev/leaving"

	leasePrefix   = "pergola-"
	maxNameLength = 253
)

// LeaseName is the name of the Lease of a pod: "pergola-" and the pod's name. A name that is too long is cut, and a hash tells it from
// others that begin like it.
func LeaseName(podName string) string {
	name := leasePrefix + podName
	if len(name) <= maxNameLength {
		return name
	}
	sum := sha256.Sum256([]byte(podName))
	hash := hex.EncodeToString(sum[:8])
	return strings.TrimRight(name[:maxNameLength-len(hash)-1], "-.") + "-" + hash
}

// GroupLabel is the value of LabelGroup for a group: a digest, as a group may be any string and a label value may not.
func GroupLabel(group string) string {
	sum := sha256.Sum256([]byte(group))
	return hex.EncodeToString(sum[:8])
}

// podOf returns the pod that a Lease belongs to; the zero value if it is not the Lease of a replica.
func podOf(l *coordinationv1.Lease) metav1.OwnerReference {
	for _, owner := range l.OwnerReferences {
		if owner.Kind == "Pod" && LeaseName(owner.Name) == l.Name {
			return owner
		}
	}
	return metav1.OwnerReference{}
}

// lease is what is known of the Lease of another replica, or was known of it when there was one.
type lease struct {
	there   bool
	version string    // resourceVersion
	owner   types.UID // of the pod that it belongs to; empty if it does not say so
	renewal renewal
	group   string // as GroupLabel writes it
	leaving bool
	plugins string // as joinPlugins writes them
	// duration is how long after a renewal the Lease expires; changed is when this replica saw the last one.
	duration time.Duration
	changed  time.Time
	// ended: it is confirmed that the Lease has expired or was given back, and it has not been renewed since.
	ended bool
	// asked is when it was asked last what the Lease is like. It counts for what is confirmed, as the answer may have been slow.
	asked time.Time
}

// renewal is what changes when a Lease is renewed or taken over.
type renewal struct {
	holder      string
	time        metav1.MicroTime
	transitions int32
}

func renewalOf(l *coordinationv1.Lease) renewal {
	return renewal{
		holder:      ptr.Deref(l.Spec.HolderIdentity, ""),
		time:        ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{}),
		transitions: ptr.Deref(l.Spec.LeaseTransitions, 0),
	}
}

func (r renewal) equal(other renewal) bool {
	return r.holder == other.holder && r.transitions == other.transitions && r.time.Time.Equal(other.time.Time)
}

// remaining is how long it takes until the Lease expires, if it is not renewed; not positive if it has expired.
func (l *lease) remaining(now time.Time) time.Duration { return l.changed.Add(l.duration).Sub(now) }

// seen takes over what a Lease shows. It returns the process that it named before, if it names another one now.
func (l *lease) seen(object *coordinationv1.Lease, owner metav1.OwnerReference, standard time.Duration, now time.Time) (before string) {
	l.there, l.version, l.owner = true, object.ResourceVersion, owner.UID
	l.group = object.Labels[LabelGroup]
	l.leaving = object.Annotations[annotationLeaving] == "true"
	l.plugins = joinPlugins(splitPlugins(object.Annotations[AnnotationPlugins]))
	l.duration = standard
	if seconds := ptr.Deref(object.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		l.duration = time.Duration(seconds) * time.Second
	}
	next := renewalOf(object)
	if !l.changed.IsZero() && next.equal(l.renewal) {
		return ""
	}
	if next.holder != l.renewal.holder {
		before = l.renewal.holder
	}
	l.renewal, l.changed, l.ended = next, now, false
	return before
}
