package replica

import (
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// justExpired is longer than a Lease holds by less than one renewal.
const justExpired = duration + time.Second

func TestVerdict(t *testing.T) {
	cases := map[string]struct {
		reason       string
		world        func(*world)
		pod, process string
		// first is the answer in the moment, then the one when what there is to be found out is found out.
		first, then Verdict
	}{
		"no pod name":         {reason: "nothing can be found out about it", pod: "nopodname"},
		"no pod name, asked":  {reason: "whatever process", pod: "nopodname", process: "x"},
		"own":                 {reason: "it is us", pod: "me", process: "me/1"},
		"own before":          {reason: "a pod's name is its own", pod: "me", process: "me/0", first: Dead, then: Dead},
		"own without process": {reason: "we would have said which process", pod: "me", first: Dead, then: Dead},
		"pod unknown":         {reason: "there is none, once it is confirmed", pod: "a", then: Dead},
		"pod unseen":          {reason: "the watch is late", pod: "a", world: func(w *world) { w.pods["a"] = "x" }},
		"pod unreadable":      {reason: "not to know is not to be dead", pod: "a", world: func(w *world) { w.unreadable = true }},
		"pod without Lease": {reason: "another implementation's, of which no more is known", pod: "a",
			world: func(w *world) { w.pod("a") }},
		"pod without, process": {reason: "its Lease may have been deleted", pod: "a", process: "a/1", world: func(w *world) { w.pod("a") }},
		"pod deleted":          {reason: "it is not in the watch any more, and that is confirmed", pod: "a", process: "a/1", world: deleted, then: Dead},
		"pod deleted, found": {reason: "it is gone already", pod: "a", process: "a/1", then: Dead,
			world: func(w *world) { deleted(w); w.find() }, first: Dead},
		"pod back unseen": {reason: "it came between the look at it and the answer", pod: "a",
			world: func(w *world) { w.pod("a"); w.feed.PodGone("a") }},
		"pod back": {reason: "there is one of that name again", pod: "a",
			world: func(w *world) { deleted(w); w.find(); w.pod("a") }},
		"replica":           {reason: "its Lease is fresh", pod: "a", world: func(w *world) { w.replica("a") }},
		"replica's process": {reason: "it holds the Lease", pod: "a", process: "a/1", world: func(w *world) { w.replica("a") }},
		"another process": {reason: "the Lease, read now, names another one", pod: "a", process: "a/0", then: Dead,
			world: func(w *world) { w.replica("a") }},
		"process after": {reason: "the watch is late; the Lease, read now, names it", pod: "a", process: "a/2",
			world: func(w *world) { w.replica("a"); w.lease("a", "a/2") }},
		"process after, blind": {reason: "not to know is not to be dead", pod: "a", process: "a/2",
			world: func(w *world) { w.replica("a"); w.unreadable = true }},
		"process replaced":    {reason: "it was seen to be followed by another one", pod: "a", process: "a/1", world: restarted, first: Dead, then: Dead},
		"process replacing":   {reason: "it is the one that runs", pod: "a", process: "a/2", world: restarted},
		"pod of a restart":    {reason: "the pod has a process", pod: "a", world: restarted},
		"given back":          {reason: "it says itself that it has ended, once it is confirmed that nobody has come after it", pod: "a", world: givenBack, then: Dead},
		"given back, process": {reason: "who has given back does not come back", pod: "a", process: "a/1", world: givenBack, first: Dead, then: Dead},
		"given back, next": {reason: "the watch is late", pod: "a", process: "a/2",
			world: func(w *world) { givenBack(w); w.lease("a", "a/2") }},
		"given back, next, any": {reason: "the watch is late", pod: "a", world: func(w *world) { givenBack(w); w.lease("a", "a/2") }},
		"given back, another":   {reason: "nobody holds the Lease", pod: "a", process: "a/0", world: givenBack, then: Dead},
		"expired":               {reason: "nobody renews it", pod: "a", process: "a/1", world: expired, first: Dead, then: Dead},
		"expired, any process":  {reason: "nobody renews it", pod: "a", world: expired, first: Dead, then: Dead},
		"expired, next": {reason: "the watch is late; another process has taken it", pod: "a", process: "a/2",
			world: func(w *world) { expired(w); w.lease("a", "a/2") }},
		"not yet expired": {reason: "it could still be renewed", pod: "a", process: "a/1",
			world: func(w *world) { w.replica("a"); w.pass(duration - time.Second) }},
		"renewed unseen": {reason: "the watch is late; the Lease, read now, was renewed", pod: "a", process: "a/1",
			world: func(w *world) { w.replica("a"); w.lease("a", "a/1"); w.pass(justExpired) }},
		"expired, unreadable": {reason: "not to know is not to be dead", pod: "a", process: "a/1",
			world: func(w *world) { w.replica("a"); w.unreadable = true; w.pass(justExpired) }},
		"expired and back": {reason: "it was only cut off", pod: "a", process: "a/1",
			world: func(w *world) { expired(w); w.lease("a", "a/1"); w.see("a") }},
		"renewed by a clock that goes wrong": {reason: "clocks of others do not matter", pod: "a", process: "a/1",
			world: func(w *world) {
				w.replica("a")
				w.pass(duration - time.Second)
				w.lease("a", "a/1", func(l *coordinationv1.Lease) { l.Spec.RenewTime = ptr.To(metav1.NewMicroTime(noon.Add(-time.Hour))) })
				w.see("a")
				w.pass(duration - time.Second)
			}},
		"touched": {reason: "a label is no renewal", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) {
				w.replica("a")
				w.pass(duration - time.Second)
				touched := w.leases["a"].DeepCopy()
				touched.ResourceVersion, touched.Labels["x"] = "1000", "y"
				w.leases["a"] = touched
				w.see("a")
				w.pass(2 * time.Second)
			}},
		"its own duration": {reason: "a replica of another configuration says itself how long", pod: "a", process: "a/1",
			world: func(w *world) {
				w.replica("a", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = ptr.To(int32(60)) })
				w.pass(59 * time.Second)
			}},
		"no duration": {reason: "the own duration stands in", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) {
				w.replica("a", func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil })
				w.pass(justExpired)
			}},
		"other group": {reason: "who shares no work is judged all the same", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) {
				w.replica("a", func(l *coordinationv1.Lease) { l.Labels[LabelGroup] = "h" })
				w.pass(justExpired)
			}},
		"Lease deleted": {reason: "a pod without a Lease is alive", pod: "a", process: "a/1",
			world: func(w *world) { w.replica("a"); w.feed.LeaseGone("a", "100") }},
		"Lease deleted before": {reason: "the watch is late; there is a newer Lease, which counts", pod: "a", process: "a/1",
			world: func(w *world) {
				w.replica("a")
				w.lease("a", "a/1")
				w.see("a")
				w.feed.LeaseGone("a", "1")
				w.pass(justExpired)
			}, first: Dead, then: Dead},
		"Lease deleted, unseen": {reason: "a pod without a Lease is alive", pod: "a", process: "a/1",
			world: func(w *world) { w.replica("a"); delete(w.leases, "a"); w.pass(justExpired) }},
		"late watch": {reason: "what is older than what is known does not count", pod: "a", process: "a/2",
			world: func(w *world) {
				w.pod("a")
				w.lease("a", "a/1")
				old := w.leases["a"]
				w.lease("a", "a/2")
				w.see("a")
				w.feed.LeaseSeen(old, false)
			}},
		"no Lease of a replica": {reason: "its name does not fit its pod", pod: "a", process: "a/1",
			world: func(w *world) {
				w.replica("a", func(l *coordinationv1.Lease) { l.Name = "other" })
				w.pass(justExpired)
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			if tc.world != nil {
				tc.world(w)
			}
			w.tellings()
			if got := w.Verdict(tc.pod, tc.process); got != tc.first {
				t.Errorf("%s: expected %s at first, but found %s", tc.reason, tc.first, got)
			}
			w.find()
			if got := w.Verdict(tc.pod, tc.process); got != tc.then {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.then, got)
			}
			if told := w.tellings(); tc.first != tc.then && !slices.Contains(told, "died "+tc.pod) {
				t.Errorf("%s: the listeners did not hear of the death, but %q", tc.reason, told)
			}
		})
	}
}

func deleted(w *world) {
	w.replica("a")
	delete(w.pods, "a")
	w.feed.PodMissing("a")
}

func restarted(w *world) {
	w.replica("a")
	w.lease("a", "a/2")
	w.see("a")
}

func givenBack(w *world) {
	w.replica("a")
	w.lease("a", "")
	w.see("a")
}

func expired(w *world) {
	w.replica("a")
	w.pass(justExpired)
}

func TestDeathsAreTold(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		happen func(*world)
		want   []string
	}{
		"pod":       {"nobody has to ask about a replica", deleted, []string{"died a", "changed"}},
		"restart":   {"the process before is dead, the group is the same", restarted, []string{"died a"}},
		"give back": {"once for the process, which is certain, and once for the pod", givenBack, []string{"died a", "changed", "died a"}},
		"expiry":    {"the group is smaller", expired, []string{"died a", "changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.replica("a")
			w.tellings()
			tc.happen(w)
			w.find()
			w.expectTold(t, tc.reason, tc.want...)
			w.find()
			w.expectTold(t, "nothing more has happened")
		})
	}
}

func TestPodsOfNoInterestAreForgotten(t *testing.T) {
	w := newWorld()
	for i := range 100 {
		name := "job-" + strconv.Itoa(i)
		w.pod(name)
		delete(w.pods, name)
		w.feed.PodMissing(name)
	}
	w.find()
	if len(w.View.pods) != 1 {
		t.Errorf("%d pods are remembered", len(w.View.pods))
	}
	w.expectTold(t, "nobody has asked about them")
}

func TestProcessesRememberedAreBounded(t *testing.T) {
	w := newWorld()
	w.replica("a")
	for i := range 10 * maxOver {
		w.lease("a", "a/"+strconv.Itoa(i))
		w.see("a")
	}
	if n := len(w.View.pods["a"].lease.over); n > maxOver {
		t.Errorf("%d processes are remembered", n)
	}
	w.Verdict("a", "a/1")
	w.find()
	if w.Verdict("a", "a/1") != Dead {
		t.Error("a forgotten process is not found out about again")
	}
	if question, wait := w.feed.Next("a"); question != Nothing || wait != duration {
		t.Errorf("what was found out is asked again: %d, %s", question, wait)
	}
}

func TestAskingDoesNotHurryAFailingLook(t *testing.T) {
	w := newWorld()
	w.unreadable = true
	for range 10 {
		w.Verdict("a", "")
	}
	if len(w.woken) != 1 {
		t.Errorf("woken %d times", len(w.woken))
	}
}
