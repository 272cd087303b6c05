package lock

import (
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/pergola-deploy/pergola/host/internal/replica"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const modelLease = 15 * time.Second

// process is a host: the real Locker and the real View of the replicas, with workers that do what package controller does.
type process struct {
	*cluster
	*rules
	choose func(n int) int

	pod, id string
	podUID  types.UID
	clock   *clocktesting.FakePassiveClock
	// rate is the speed of its clock.
	rate    float64
	renewed time.Time
	view    *replica.View
	feed    *replica.Feed
	locker  *Locker

	// crashed: it is gone. paused: it does nothing. cut: none of its requests arrives, and no event. calm: nothing goes wrong any more.
	crashed, paused, cut, calm bool
	// excused: it may be taken for dead although it is not, because it has been stopped or cut off, or its pod is gone.
	excused bool

	events  [streams][]func(*process)
	seen    map[string]*v1alpha1.SyncObject // the cache of locks
	cached  map[string]modelItem            // the cache of items' metadata
	leased  map[string]*coordinationv1.Lease
	memory  map[string]memo
	queue   map[string]bool
	workers map[string]*worker
	running *worker
	late    *[]func() // requests that were given up and will arrive all the same

	newest map[string]int // its last tenure of each lock
	held   map[*Lock]int  // the tenures of its locks
	robbed map[int]bool   // those of its tenures that others have ended
}

var (
	_ Listener         = (*process)(nil)
	_ replica.Listener = (*Locker)(nil)
)

// start starts the process of a pod. It knows all that is there, takes the pod's Lease over and hears of what follows.
func start(c *cluster, r *rules, choose func(int) int, late *[]func(), pod, id string, skew time.Duration, rate float64) *process {
	p := &process{
		cluster: c, rules: r, choose: choose, late: late, pod: pod, id: id, podUID: c.pods[pod], rate: rate,
		clock: clocktesting.NewFakePassiveClock(time.Date(2024, time.March, 14, 12, 0, 0, 0, time.UTC).Add(skew)),
		seen:  map[string]*v1alpha1.SyncObject{}, cached: map[string]modelItem{}, leased: map[string]*coordinationv1.Lease{},
		memory: map[string]memo{}, queue: map[string]bool{}, workers: map[string]*worker{},
		newest: map[string]int{}, held: map[*Lock]int{}, robbed: map[int]bool{},
	}
	self := replica.Self{PodName: pod, PodUID: p.podUID, Process: id, LeaseDuration: modelLease}
	log := slog.New(slog.DiscardHandler)
	p.view, p.feed = replica.NewView(self, p.clock, log, func(string) {})
	p.locker = New(Options{API: modelAPI{p}, Replicas: ruled{p.view, r}, Listener: p, Clock: p.clock, Log: log})
	p.view.Subscribe(p.locker)
	p.feed.Serving([]string{modelPlugin})
	c.watchers = append(c.watchers, p)
	p.writeLease(ptr.Deref(ptr.Deref(c.leases[pod], coordinationv1.Lease{}).Spec.LeaseTransitions, 0) + 1)
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		p.feed.PodSeen(name, c.pods[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.leases)) {
		p.seeLease(name, c.leases[name])
	}
	c.relist(p)
	for _, name := range slices.Sorted(maps.Keys(c.items)) {
		p.seeItem(*c.items[name])
	}
	p.events = [streams][]func(*process){}
	return p
}

// ruled are the replicas as the Locker sees them, without what a mutant lacks.
type ruled struct {
	*replica.View
	rules *rules
}

func (r ruled) Serve([]string) {}

func (r ruled) Valid() bool { return r.rules.alwaysValid || r.View.Valid() }

func (p *process) active() bool { return !p.crashed && !p.paused }

func (p *process) seeItem(item modelItem) {
	p.cached[item.name] = item
	p.queue[item.name] = true
}

func (p *process) loseItem(name string) {
	delete(p.cached, name)
	delete(p.memory, name)
	p.queue[name] = true
}

func (p *process) seeLock(object *v1alpha1.SyncObject) {
	p.seen[object.Name] = object
	p.locker.OnUpdate(nil, object)
}

func (p *process) loseLock(object *v1alpha1.SyncObject, relisted bool) {
	delete(p.seen, object.Name)
	if relisted {
		p.locker.OnDelete(cache.DeletedFinalStateUnknown{Obj: object})
		return
	}
	p.locker.OnDelete(object)
}

func (p *process) seeLease(pod string, lease *coordinationv1.Lease) {
	p.leased[pod] = lease
	p.feed.LeaseSeen(lease, false)
}

// Freed implements Listener.
func (p *process) Freed(key Key) { p.queue[key.Item.Name] = true }

// Lost implements Listener.
func (p *process) Lost(key Key) {
	delete(p.memory, key.Item.Name)
	p.queue[key.Item.Name] = true
}

// hear delivers some events of one watch.
func (p *process) hear(s stream, n int) {
	for ; n > 0 && len(p.events[s]) > 0 && !p.cut && p.active(); n-- {
		event := p.events[s][0]
		p.events[s] = p.events[s][1:]
		event(p)
	}
}

// tell has the listeners of the replicas told what there is to tell.
func (p *process) tell() {
	if p.active() {
		p.feed.CheckValidity()
		p.feed.Deliver()
	}
}

// find finds out about the other replicas what there is to be found out.
func (p *process) find(pods []string) {
	if !p.active() || p.cut {
		return
	}
	for _, name := range pods {
		question, _ := p.feed.Next(name)
		_, there := p.pods[name]
		lease := p.leases[name]
		if p.trustWatch {
			lease = p.leased[name]
		}
		switch {
		case question == replica.AskPod && !there:
			p.feed.PodGone(name)
		case question == replica.AskLease && lease != nil:
			p.feed.LeaseSeen(lease, true)
		case question == replica.AskLease:
			p.feed.LeaseGone(name, "")
		}
	}
}

// pass lets time pass; who can renews the own Lease in time.
func (p *process) pass(d time.Duration) {
	if p.crashed {
		return
	}
	p.clock.SetTime(p.clock.Now().Add(time.Duration(float64(d) * p.rate)))
	if p.active() && !p.cut && p.clock.Since(p.renewed) >= modelLease/3 {
		p.renew(p.clock.Now())
	}
	if p.active() {
		p.feed.CheckValidity()
	}
}

// renew renews the own Lease by a request that began at a time.
func (p *process) renew(began time.Time) {
	lease := p.leases[p.pod]
	if p.pods[p.pod] != p.podUID || lease == nil || *lease.Spec.HolderIdentity != p.id {
		p.feed.Replaced()
		return
	}
	p.writeLease(*lease.Spec.LeaseTransitions)
	p.feed.Renewed(began)
}

func (p *process) writeLease(transitions int32) {
	p.renewed = p.clock.Now()
	p.putLease(p.pod, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name:            replica.LeaseName(p.pod),
			Labels:          map[string]string{replica.LabelReplica: "true", replica.LabelGroup: replica.GroupLabel("")},
			Annotations:     map[string]string{replica.AnnotationPlugins: modelPlugin},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: p.pod, UID: p.podUID}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(p.id), LeaseTransitions: &transitions,
			LeaseDurationSeconds: ptr.To(int32(modelLease / time.Second)),
			RenewTime:            ptr.To(metav1.NewMicroTime(p.renewed.Add(time.Duration(p.revision)))),
		},
	})
}

// request has something happen to the cluster some time after it was sent, and its answer arrive some time later, or never.
func (p *process) request(effect func() error) error {
	w := p.running
	w.wait()
	if p.crashed {
		return errTimeout
	}
	fate := 4
	if !p.calm {
		fate = p.pick(24)
	}
	if fate == 1 {
		*p.late = append(*p.late, func() { _ = effect() })
	}
	if p.cut || fate == 1 || fate == 2 {
		p.log("%s: a request does not arrive", p.id)
		return errTimeout
	}
	err := effect()
	p.check()
	w.wait()
	if p.crashed || p.cut || fate == 3 {
		p.log("%s: an answer does not arrive", p.id)
		return errTimeout
	}
	return err
}

// pick chooses one of n things; the first when there is no choice any more.
func (p *process) pick(n int) int {
	if p.crashed {
		return 0
	}
	return p.choose(n)
}

// version is a version as the API server writes it.
func version(n int) string { return strconv.Itoa(n) }
