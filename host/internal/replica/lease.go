package replica

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// LabelReplica is "true" on the Leases of replicas.
	LabelReplica = "host.pergola.dev/replica"
	// LabelGroup has the group of the replica.
	LabelGroup = "host.pergola.dev/group"
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

// podOf returns the name of the pod that a Lease belongs to; "" if it is not the Lease of a replica.
func podOf(l *coordinationv1.Lease) string {
	for _, owner := range l.OwnerReferences {
		if owner.Kind == "Pod" && LeaseName(owner.Name) == l.Name {
			return owner.Name
		}
	}
	return ""
}

// maxOver bounds how many processes of a pod are remembered. One that was forgotten is found out about again.
const maxOver = 64

// lease is what is known of the Lease of another replica.
type lease struct {
	version string // resourceVersion
	renewal renewal
	group   string
	leaving bool
	// duration is how long after a renewal the Lease expires; changed is when this replica saw the last one.
	duration time.Duration
	changed  time.Time
	// ended: it is confirmed that the Lease has expired or was given back, and it has not been renewed since.
	ended bool
	// asked is when it was asked last what the Lease is like. It counts for what is confirmed, as the answer may have been slow.
	asked time.Time
	// over are processes of the pod that are known to be gone, doubted those that seem to be.
	over, doubted map[string]struct{}
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

// verdict is that of rule 5. It notes a process that needs a confirmation among those that are doubted.
func (l *lease) verdict(process string) Verdict {
	_, over := l.over[process]
	switch {
	case over:
		return Dead
	case process != "" && process != l.renewal.holder:
		l.doubted[process] = struct{}{}
		return Alive
	case l.ended:
		return Dead
	default:
		return Alive
	}
}

// remaining is how long it takes until the Lease expires, if it is not renewed; not positive if it has expired.
func (l *lease) remaining(now time.Time) time.Duration { return l.changed.Add(l.duration).Sub(now) }

// seen takes over what a Lease shows. It tells whether a process has been found dead by it.
func (l *lease) seen(object *coordinationv1.Lease, standard time.Duration, now time.Time) (died bool) {
	l.version = object.ResourceVersion
	l.group = object.Labels[LabelGroup]
	l.leaving = object.Annotations[annotationLeaving] == "true"
	l.duration = standard
	if seconds := ptr.Deref(object.Spec.LeaseDurationSeconds, 0); seconds > 0 {
		l.duration = time.Duration(seconds) * time.Second
	}
	next := renewalOf(object)
	if !l.changed.IsZero() && next.equal(l.renewal) {
		return false
	}
	died = next.holder != l.renewal.holder && l.markOver(l.renewal.holder)
	l.renewal, l.changed, l.ended = next, now, false
	delete(l.doubted, next.holder)
	return died
}

// confirm draws the conclusions from a Lease that was read since it was asked for. valid is whether this replica is so itself: only then could
// it have seen a renewal. It tells whether a process has been found dead.
func (l *lease) confirm(valid bool) (died bool) {
	for process := range l.doubted {
		died = l.markOver(process) || died
	}
	clear(l.doubted)
	if !l.ended && (l.renewal.holder == "" || valid && l.remaining(l.asked) <= 0) {
		l.ended, died = true, true
	}
	return died
}

func (l *lease) markOver(process string) bool {
	if process == "" {
		return false
	}
	if len(l.over) >= maxOver {
		clear(l.over)
	}
	l.over[process] = struct{}{}
	return true
}
