package replica

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Feed tells a View what happens. Replicas feeds it from an API server, tests can do so by hand. Its methods may be called from many
// goroutines at the same time, but for Deliver, and do not block.
type Feed struct {
	view *View
}

// Question is what there is to be found out about a pod.
type Question int

const (
	// Nothing means that all is known.
	Nothing Question = iota
	// AskPod asks whether there is a pod of that name that has not finished. To be answered by PodGone if there is none. If there is,
	// the watch will show it; until then the question stays.
	AskPod
	// AskLease asks what the pod's Lease is like. To be answered by LeaseSeen, live, or LeaseGone without a version. The question stays if
	// this replica, not being valid itself, cannot tell whether the Lease has expired.
	AskLease
)

// PodSeen tells that a watch shows a pod that has not finished.
func (f *Feed) PodSeen(name string, uid types.UID) {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.pod(name)
	if name == v.self.PodName && uid != v.self.PodUID {
		p.there = false
		v.wake(name)
		return
	}
	if p.there && p.uid == uid {
		return
	}
	if p.uid != "" && p.uid != uid && p.lease.owner == p.uid {
		v.died(name, p.finish(p.lease.renewal.holder))
	}
	p.there, p.gone, p.uid = true, false, uid
	delete(p.doubts, p.lease.renewal.holder)
	if p.lease.there {
		v.regroup()
	}
	if p.lease.there || !p.asked.IsZero() {
		v.wake(name) // what there is to be found out is another thing now
	}
}

// PodMissing tells that a watch does not show a pod any more.
func (f *Feed) PodMissing(name string) {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.pod(name)
	p.there = false
	if p.forgettable() {
		delete(v.pods, name) // a namespace has pods that are nothing to a replica
		return
	}
	v.wake(name)
}

// PodGone confirms that there is no pod of that name, or that it has finished. For the own pod it says that the pod is not
// the own one any more.
func (f *Feed) PodGone(name string) {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.pod(name)
	died := p.podGone() // also if there is another one by now
	if !p.there && !p.gone {
		p.gone, died = true, true
	}
	if name == v.self.PodName {
		if p.gone {
			v.replace()
		}
		return
	}
	v.died(name, died)
	v.regroup()
}

// LeaseSeen tells what the Lease of a replica is like. live says that it was read after the question for it was asked, and not from
// a watch or a cache. What is older than what is known is passed over.
func (f *Feed) LeaseSeen(object *coordinationv1.Lease, live bool) {
	owner := podOf(object)
	if owner.Name == "" {
		return
	}
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if owner.Name == v.self.PodName {
		v.ownLeaseSeen(renewalOf(object).holder)
		return
	}
	p := v.pod(owner.Name)
	if older(object.ResourceVersion, p.lease.version) {
		return
	}
	now, missed := v.clock.Now(), !p.lease.there
	died := p.finish(p.lease.seen(object, owner, v.self.LeaseDuration, now))
	died = missed && p.lease.ended || died
	if p.there {
		delete(p.doubts, p.lease.renewal.holder)
	}
	if live {
		died = p.leaseFound(v.validity.valid(now)) || died
	}
	v.died(owner.Name, died)
	v.regroup()
	v.wake(owner.Name)
}

// LeaseGone tells that the Lease of a pod was deleted, and what its resourceVersion was last. An empty one says that there is none: that was
// read after the question for it was asked.
func (f *Feed) LeaseGone(podName, version string) {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.pods[podName]
	if p == nil || older(version, p.lease.version) {
		return
	}
	now, missed := v.clock.Now(), p.lease.there
	p.lease.there = false
	if version == "" {
		if missed {
			p.restart(now) // the watch is late, so only now it has the time to come back
		}
		v.died(podName, p.leaseFound(v.validity.valid(now)))
	} else {
		p.lease.version = version
	}
	if p.forgettable() {
		delete(v.pods, podName)
	}
	v.regroup()
	v.wake(podName)
}

// older tells whether a version is older than another one. Versions that cannot be compared are not.
func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

// Next tells what there is to be found out about a pod, and if that is nothing, how long that will be so at least; 0: until wake
// is called again.
func (f *Feed) Next(podName string) (Question, time.Duration) {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.pods[podName]
	if p == nil {
		return Nothing, 0
	}
	now := v.clock.Now()
	question, wait := p.question(now)
	p.ask(question, now)
	return question, wait
}

// Renewed tells that the own Lease was renewed, by a request that began at a time.
func (f *Feed) Renewed(began time.Time) {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checkValidity()
	now := v.clock.Now()
	if !v.validity.renewed(began, now) {
		return
	}
	v.tell(event{kind: renewed})
	for _, p := range v.pods {
		p.restart(now) // see the package comment
	}
}

// Leaving tells that this replica takes no new work.
func (f *Feed) Leaving() {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leaving = true
	v.regroup()
}

// Serving tells which plugins this replica serves from now on.
func (f *Feed) Serving(plugins []string) {
	joined := joinPlugins(plugins)
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	if joined == v.plugins {
		return
	}
	v.plugins = joined
	v.regroup()
	select {
	case v.unsaid <- struct{}{}:
	default:
	}
}

// Replaced tells that the own Lease is in other hands.
func (f *Feed) Replaced() {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	v.replace()
}

// Ended tells that this replica does not renew its Lease any more: from now on it is not valid.
func (f *Feed) Ended() {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	v.validity.over = true
	v.checkValidity()
}

// CheckValidity has the listeners told if the own Lease has lapsed, and returns how long it takes at least until that may be so.
func (f *Feed) CheckValidity() time.Duration {
	v := f.view
	v.mu.Lock()
	defer v.mu.Unlock()
	v.checkValidity()
	return v.validity.next(v.clock.Now())
}

// Deliver tells the listeners what they have not been told yet. It must not be called from two goroutines at the same time.
func (f *Feed) Deliver() { f.view.deliver() }

// checkValidity has the listeners told of a lapse. View.mu must be held.
func (v *View) checkValidity() {
	if v.validity.check(v.clock.Now()) {
		v.tell(event{kind: lapsed})
	}
}

// replace ends the validity of this replica. View.mu must be held.
func (v *View) replace() {
	select {
	case <-v.replaced:
		return
	default:
	}
	close(v.replaced)
	v.validity.over = true
	v.checkValidity()
}

// ownLeaseSeen has the own Lease looked at if it seems to be in other hands. It only seems so, because the watch may be late, and show
// who had it before. View.mu must be held.
func (v *View) ownLeaseSeen(holder string) {
	if holder == v.self.Process {
		return
	}
	select {
	case v.takenOver <- struct{}{}:
	default:
	}
}
