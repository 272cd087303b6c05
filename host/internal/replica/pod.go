package replica

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxProcesses bounds how many processes of a pod are remembered whose end is known. One that was forgotten is found out about again.
const maxProcesses = 64

// pod is what is known of the pod of a name, and of the processes that were in it, also in earlier pods of the name.
type pod struct {
	// there: the watch shows it, so it has not finished. gone: it is confirmed that there is none, or that it has finished.
	there, gone bool
	uid         types.UID // of the one that the watch showed last
	// asked is when somebody asked for a verdict last, and wants to hear of its death. Zero: nobody did.
	asked time.Time
	// finding: what is to be found out about it is on the way already.
	finding bool
	lease   lease
	// suspect is the process that the Lease named when it was asked whether there is a pod.
	suspect string
	// over are processes that are known to be gone for good, doubts those that were asked about and that the Lease does not name.
	over   map[string]struct{}
	doubts map[string]doubt
}

// doubt is what is known of a process that its pod's Lease does not name.
type doubt struct {
	// since is when it was found first that there is no Lease. Zero: nobody has looked yet.
	since time.Time
	// asked: it was there when the question was asked whose answer is awaited, so the answer is about it, too.
	asked bool
	// dead: it is confirmed that there has been no Lease for too long. It comes back if a Lease names it.
	dead bool
}

// forgettable tells that nothing is known of the pod that anybody could miss.
func (p *pod) forgettable() bool { return !p.there && p.asked.IsZero() && !p.lease.there }

// outdated tells that the pod is gone and nobody has asked for long.
func (p *pod) outdated(now time.Time) bool {
	return p.gone && !p.lease.there && now.Sub(p.asked) > forgetAfter
}

func (p *pod) isOver(process string) bool {
	_, over := p.over[process]
	return over
}

// verdict follows the rules of the package comment for a pod that is not the own one, as far as they are confirmed.
func (p *pod) verdict(process string) Verdict {
	dead := false
	switch {
	case p.isOver(process):
		dead = true
	case !p.there:
		dead = p.gone && process == ""
	case process == "":
		dead = p.lease.there && p.lease.ended
	case process == p.lease.renewal.holder:
		dead = p.lease.ended
	default:
		dead = p.doubts[process].dead
	}
	if dead {
		return Dead
	}
	return Alive
}

// note takes note of a process that is asked about and that nothing shows to be there. It tells whether that is new.
func (p *pod) note(process string) bool {
	_, known := p.doubts[process]
	if process == "" || known || p.isOver(process) || p.there && process == p.lease.renewal.holder {
		return false
	}
	if p.doubts == nil {
		p.doubts = map[string]doubt{}
	}
	if len(p.doubts) >= maxProcesses {
		maps.DeleteFunc(p.doubts, func(_ string, d doubt) bool { return d.dead })
	}
	p.doubts[process] = doubt{}
	return true
}

// finish takes note that a process is gone for good. It tells whether that is new.
func (p *pod) finish(process string) bool {
	if process == "" || p.isOver(process) {
		return false
	}
	if p.over == nil || len(p.over) >= maxProcesses {
		p.over = map[string]struct{}{}
	}
	p.over[process] = struct{}{}
	delete(p.doubts, process)
	return true
}

// unsettled tells that there is something to be found out about a process.
func (p *pod) unsettled() bool {
	for _, d := range p.doubts {
		if !d.dead {
			return true
		}
	}
	return false
}

// question is what there is to be found out, and if that is nothing, how long that will be so at least; 0: until something happens.
func (p *pod) question(now time.Time) (Question, time.Duration) {
	switch {
	case p.forgettable():
		return Nothing, 0
	case !p.there && (!p.gone || p.unsettled()):
		return AskPod, 0
	case !p.there:
		return Nothing, 0
	case !p.lease.there:
		return p.questionWithoutLease(now)
	case p.unsettled():
		return AskLease, 0
	case p.lease.ended:
		return Nothing, 0
	case p.lease.renewal.holder == "" || p.lease.remaining(now) <= 0:
		return AskLease, 0
	default:
		return Nothing, p.lease.remaining(now)
	}
}

// questionWithoutLease gives the Lease that there should be the time to come back.
func (p *pod) questionWithoutLease(now time.Time) (Question, time.Duration) {
	var waits []time.Duration
	if p.lease.renewal.holder != "" && !p.lease.ended && !p.isOver(p.lease.renewal.holder) {
		waits = append(waits, p.lease.remaining(now))
	}
	for _, d := range p.doubts {
		switch {
		case d.dead:
		case d.since.IsZero():
			return AskLease, 0
		default:
			waits = append(waits, d.since.Add(p.lease.duration).Sub(now))
		}
	}
	if len(waits) == 0 {
		return Nothing, 0
	}
	if next := slices.Min(waits); next > 0 {
		return Nothing, next
	}
	return AskLease, 0
}

// ask takes note of what is known when a question is asked: the answer is about no more than that.
func (p *pod) ask(question Question, now time.Time) {
	p.finding = question != Nothing
	if !p.finding {
		return
	}
	for process, d := range p.doubts {
		d.asked = true
		p.doubts[process] = d
	}
	p.suspect, p.lease.asked = p.lease.renewal.holder, now
}

// podGone draws the conclusions from the answer that there is no pod: all processes are gone for good that were known when it was asked. It
// tells whether one has been found dead.
func (p *pod) podGone() (died bool) {
	died = p.finish(p.suspect)
	p.suspect = ""
	for process, d := range p.doubts {
		if d.asked {
			died = p.finish(process) || died
		}
	}
	return died
}

// leaseFound draws the conclusions from a Lease, or the lack of one, that was read since it was asked for. valid is whether this replica is
// so itself: only then could it have seen a renewal. It tells whether a process has been found dead.
func (p *pod) leaseFound(valid bool) (died bool) {
	l := &p.lease
	for process, d := range p.doubts {
		switch {
		case !d.asked || d.dead || process == l.renewal.holder:
		case l.there:
			died = p.finish(process) || died
		case d.since.IsZero():
			d.since = l.asked
			p.doubts[process] = d
		case valid && !l.asked.Before(d.since.Add(l.duration)):
			d.dead, died = true, true
			p.doubts[process] = d
		}
	}
	expired := valid && (l.there || l.renewal.holder != "") && l.remaining(l.asked) <= 0
	if !l.ended && (expired || l.there && l.renewal.holder == "") {
		l.ended, died = true, true
	}
	return died
}

// restart begins the time anew after which a Lease counts as expired, or as missing.
func (p *pod) restart(now time.Time) {
	if !p.lease.changed.IsZero() {
		p.lease.changed = now
	}
	for process, d := range p.doubts {
		if !d.since.IsZero() {
			d.since = now
			p.doubts[process] = d
		}
	}
}
