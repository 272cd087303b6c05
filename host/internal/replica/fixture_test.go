package replica

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

const duration = 15 * time.Second

var noon = time.Date(2024, time.March, 14, 12, 0, 0, 0, time.UTC)

// world is a cluster without an API server, as a View with a fake clock sees it. What happens in it is not fed before the test says so.
type world struct {
	*View
	feed  *Feed
	clock *clocktesting.FakePassiveClock
	// pods and leases are what can be read; nothing can while unreadable is set.
	pods       map[string]types.UID
	leases     map[string]*coordinationv1.Lease
	unreadable bool
	woken      []string
	version    int
	told       []string
}

// newWorld returns a world with the replica "me" of group "g", which serves the plugin of the tests, as all others do.
func newWorld() *world {
	w := &world{
		clock:  clocktesting.NewFakePassiveClock(noon),
		pods:   map[string]types.UID{"me": "me-uid"},
		leases: map[string]*coordinationv1.Lease{},
	}
	self := Self{PodName: "me", PodUID: "me-uid", Process: "me/1", Group: "g", LeaseDuration: duration}
	w.View, w.feed = NewView(self, w.clock, slog.New(slog.DiscardHandler), func(podName string) { w.woken = append(w.woken, podName) })
	w.feed.Serving([]string{plugin})
	w.feed.Deliver()
	w.Subscribe((*recorder)(w))
	return w
}

// pod makes a pod that is there, and seen.
func (w *world) pod(name string) {
	w.pods[name] = types.UID(name + "-uid")
	w.feed.PodSeen(name, w.pods[name])
}

// lease has a process of a pod take or renew its Lease. It is not fed.
func (w *world) lease(podName, process string, change ...func(*coordinationv1.Lease)) {
	w.version++
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: LeaseName(podName), ResourceVersion: strconv.Itoa(w.version),
			Labels:          map[string]string{LabelReplica: "true", LabelGroup: GroupLabel("g")},
			Annotations:     map[string]string{AnnotationPlugins: plugin},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: podName, UID: w.pods[podName]}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &process,
			LeaseDurationSeconds: ptr.To(int32(duration / time.Second)),
			RenewTime:            ptr.To(metav1.NewMicroTime(noon.Add(time.Duration(w.version)))), // the clock of another machine
		},
	}
	for _, c := range change {
		c(lease)
	}
	w.leases[podName] = lease
}

// see feeds a Lease as the watch does.
func (w *world) see(podName string) { w.feed.LeaseSeen(w.leases[podName], false) }

// replica makes a pod with a Lease, and both seen.
func (w *world) replica(podName string, change ...func(*coordinationv1.Lease)) {
	w.pod(podName)
	w.lease(podName, podName+"/1", change...)
	w.see(podName)
}

// find answers the questions there are from what can be read.
func (w *world) find() {
	woken := w.woken
	w.woken = nil
	for _, name := range woken {
		question, _ := w.feed.Next(name)
		switch {
		case question == Nothing:
		case w.unreadable:
			w.woken = append(w.woken, name)
		case question == AskPod && w.pods[name] == "":
			w.feed.PodGone(name)
		case question == AskLease && w.leases[name] != nil:
			w.feed.LeaseSeen(w.leases[name], true)
		case question == AskLease:
			w.feed.LeaseGone(name, "")
		}
	}
}

// pass lets time pass, in which this replica renews its own Lease, and has all be looked at.
func (w *world) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		w.clock.SetTime(w.clock.Now().Add(min(d, time.Second)))
		w.feed.Renewed(w.clock.Now())
		w.lookAtAll()
	}
}

func (w *world) lookAtAll() {
	w.woken = slices.AppendSeq(w.woken, maps.Keys(w.leases))
	w.woken = slices.AppendSeq(w.woken, maps.Keys(w.pods))
	w.find()
}

// tellings returns what the listeners were told since the last time.
func (w *world) tellings() []string {
	w.feed.Deliver()
	told := w.told
	w.told = nil
	return told
}

func (w *world) expectTold(t *testing.T, reason string, want ...string) {
	t.Helper()
	if got := w.tellings(); !slices.Equal(got, want) {
		t.Errorf("%s: expected the listeners to hear %q, but they heard %q", reason, want, got)
	}
}

// recorder is the listener of a world.
type recorder world

func (r *recorder) ReplicaDied(podName string) { r.told = append(r.told, "died "+podName) }
func (r *recorder) ReplicasChanged()           { r.told = append(r.told, "changed") }
func (r *recorder) Lapsed()                    { r.told = append(r.told, fmt.Sprintf("lapsed, valid %t", r.Valid())) }
func (r *recorder) Renewed()                   { r.told = append(r.told, fmt.Sprintf("renewed, valid %t", r.Valid())) }
