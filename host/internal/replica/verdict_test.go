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
				w.replica("a", func(l *coordinationv1.Lease) { l.Labels[LabelGroup] = GroupLabel("h") })
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
		"Lease deleted for long": {reason: "it did not come back, and that is confirmed", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) { leaseDeleted(w); w.pass(justExpired) }},
		"Lease deleted for long, unreadable": {reason: "not to know is not to be dead", pod: "a", process: "a/1",
			world: func(w *world) { leaseDeleted(w); w.unreadable = true; w.pass(justExpired) }},
		"Lease deleted for long, unseen": {reason: "it had the time to come back since it was found missing", pod: "a", process: "a/1",
			world: func(w *world) { w.replica("a"); delete(w.leases, "a"); w.pass(2 * justExpired) }, first: Dead, then: Dead},
		"Lease deleted and back": {reason: "a living replica makes it again", pod: "a", process: "a/1",
			world: func(w *world) { leaseDeleted(w); w.lease("a", "a/1"); w.see("a"); w.pass(duration - time.Second) }},
		"Lease deleted and back, unseen": {reason: "the watch is late; the Lease, read now, is there", pod: "a", process: "a/1",
			world: func(w *world) { leaseDeleted(w); w.lease("a", "a/1"); w.pass(justExpired) }},
		"Lease deleted and back at last": {reason: "it was only cut off", pod: "a", process: "a/1",
			world: func(w *world) { leaseDeleted(w); w.pass(justExpired); w.lease("a", "a/1"); w.see("a") }},
		"Lease deleted for long, no process": {reason: "another implementation's holder has no Lease", pod: "a",
			world: func(w *world) { leaseDeleted(w); w.pass(justExpired) }},
		"never a Lease": {reason: "a process has a Lease", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) { askedWithoutLease(w); w.pass(justExpired) }},
		"never a Lease, no process": {reason: "another implementation's holder has none", pod: "a",
			world: func(w *world) { w.pod("a"); w.Verdict("a", ""); w.pass(justExpired) }},
		"never a Lease, not yet": {reason: "it may be about to be made again", pod: "a", process: "a/1",
			world: func(w *world) { askedWithoutLease(w); w.pass(duration - time.Second) }},
		"never a Lease, another asked": {reason: "each process has its time", pod: "a", process: "a/2",
			world: func(w *world) { askedWithoutLease(w); w.pass(justExpired) }},
		"never a Lease, one unseen": {reason: "the watch is late; the Lease, read now, names it", pod: "a", process: "a/1",
			world: func(w *world) { askedWithoutLease(w); w.lease("a", "a/1"); w.pass(justExpired) }},
		"never a Lease, another's unseen": {reason: "the Lease, read now, names another process", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) { askedWithoutLease(w); w.lease("a", "a/2"); w.pass(justExpired) }},
		"never a Lease, one at last": {reason: "it was only cut off", pod: "a", process: "a/1",
			world: func(w *world) { askedWithoutLease(w); w.pass(justExpired); w.lease("a", "a/1"); w.see("a") }},
		"successor": {reason: "who is over does not come back with another pod", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) { deleted(w); w.find(); w.successor() }},
		"successor, no process": {reason: "nothing is known of it but its pod", pod: "a",
			world: func(w *world) { deleted(w); w.find(); w.successor(); collected(w) }},
		"successor's process": {reason: "it is not the one before", pod: "a", process: "a/2",
			world: func(w *world) { deleted(w); w.find(); w.successor(); w.lease("a", "a/2"); w.see("a") }},
		"successor at once": {reason: "a pod of another UID is another one", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) { w.replica("a"); w.successor() }},
		"successor at once, its Lease first": {reason: "the watch of pods is later than that of Leases", pod: "a", process: "a/2",
			world: func(w *world) { w.replica("a"); w.pods["a"] = "other"; w.lease("a", "a/2"); w.see("a"); w.successor() }},
		"successor, collected": {reason: "the garbage collector takes the Lease away", pod: "a", process: "a/1", first: Dead, then: Dead,
			world: func(w *world) { w.replica("a"); w.successor(); collected(w) }},
		"successor before the look": {reason: "what was there when the question was asked is over", pod: "a", process: "a/1",
			first: Dead, then: Dead,
			world: func(w *world) { deleted(w); w.feed.Next("a"); w.successor(); w.feed.PodGone("a") }},
		"successor of an unseen pod": {reason: "its process was asked about while there was none", pod: "a", process: "a/1",
			first: Dead, then: Dead,
			world: func(w *world) { w.Verdict("a", "a/1"); w.find(); w.successor() }},
		"pod gone, new process": {reason: "the watch is late; there is a pod again", pod: "a", process: "a/2",
			world: func(w *world) { deleted(w); w.find(); w.pods["a"] = "other" }},
		"pod gone, other process": {reason: "there is still none", pod: "a", process: "a/2", then: Dead,
			world: func(w *world) { deleted(w); w.find() }},
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

// successor makes another pod of the name "a", and has it seen.
func (w *world) successor() {
	w.pods["a"] = "other"
	w.feed.PodSeen("a", w.pods["a"])
}

// collected has the garbage collector take the Lease of "a" away.
func collected(w *world) {
	delete(w.leases, "a")
	w.version++
	w.feed.LeaseGone("a", strconv.Itoa(w.version))
}

func leaseDeleted(w *world) {
	w.replica("a")
	collected(w)
}

func askedWithoutLease(w *world) {
	w.pod("a")
	w.Verdict("a", "a/1")
	w.find()
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

// TestDeathOfTheAskedIsTold has somebody ask about a process, and wait.
func TestDeathOfTheAskedIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		happen func(*world)
	}{
		"no Lease":          {"it has had the time to come back", func(w *world) { w.pass(justExpired) }},
		"another's Lease":   {"it was replaced", func(w *world) { w.lease("a", "a/2"); w.see("a"); w.find() }},
		"successor":         {"the first one is over", func(w *world) { w.successor(); w.pass(justExpired) }},
		"successor's Lease": {"the first one was replaced", func(w *world) { w.successor(); w.lease("a", "a/2"); w.see("a"); w.find() }},
		"pod gone":          {"no pod, no process", func(w *world) { delete(w.pods, "a"); w.feed.PodMissing("a"); w.find() }},
		"gone and back late": {"the one that is back is another one",
			func(w *world) { w.feed.PodMissing("a"); w.find(); w.successor(); w.pass(justExpired) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			askedWithoutLease(w)
			tc.happen(w)
			if told := w.tellings(); !slices.Contains(told, "died a") {
				t.Errorf("%s: the listeners heard %q", tc.reason, told)
			}
			if w.Verdict("a", "a/1") != Dead {
				t.Errorf("%s: alive", tc.reason)
			}
		})
	}
}

// TestLooksComeInTime has nobody look at a pod before Next has said that there is something to look at.
func TestLooksComeInTime(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		world  func(*world)
	}{
		"never a Lease": {"it was asked about", func(w *world) { askedWithoutLease(w); w.woken = []string{"a"} }},
		"Lease deleted": {"nobody has to ask about a replica", leaseDeleted},
		"successor":     {"the Lease of the one before stays if nobody collects it", func(w *world) { deleted(w); w.find(); w.successor() }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			tc.world(w)
			if !slices.Contains(w.woken, "a") {
				t.Fatalf("%s: nobody looks", tc.reason)
			}
			question, wait := w.feed.Next("a")
			if question != Nothing || wait != duration {
				t.Fatalf("%s: asks %d, and waits %s", tc.reason, question, wait)
			}
			w.clock.SetTime(w.clock.Now().Add(wait))
			if question, _ := w.feed.Next("a"); question != AskLease {
				t.Errorf("%s: asks %d", tc.reason, question)
			}
		})
	}
}

// TestNamesOfThePastAreForgotten asks about many pods that there are no more.
func TestNamesOfThePastAreForgotten(t *testing.T) {
	w := newWorld()
	const each = 1000
	for i := range 10 * each {
		w.Verdict("job-"+strconv.Itoa(i), "")
		w.Verdict("waited-for", "")
		w.find()
		w.clock.SetTime(w.clock.Now().Add(forgetAfter / each))
	}
	if n := len(w.View.pods); n > 3*each {
		t.Errorf("%d pods are remembered", n)
	}
	if w.Verdict("waited-for", "") != Dead {
		t.Error("who is asked about is forgotten")
	}
	w.tellings()
	if w.Verdict("job-1", "") != Alive {
		t.Error("dead without a look")
	}
	w.find()
	w.expectTold(t, "it was found out about again", "died job-1")
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
	for i := range 10 * maxProcesses {
		w.lease("a", "a/"+strconv.Itoa(i))
		w.see("a")
	}
	if n := len(w.View.pods["a"].over); n > maxProcesses {
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
