package replica

// Verdict says whether the holder of a lock is to be reckoned with. The zero value is Alive.
type Verdict int

const (
	// Alive means that the holder works, or that nothing is known to the contrary.
	Alive Verdict = iota
	// Dead means that the holder is gone. What it held can be taken.
	Dead
)

func (v Verdict) String() string {
	if v == Dead {
		return "dead"
	}
	return "alive"
}

// noPodName is how Landscaper calls a deployer that does not know its pod.
const noPodName = "nopodname"

// Verdict tells whether the process of the pod is alive; an empty process stands for whichever is in the pod. The rules are
// those of the package comment. It never blocks: an answer that needs a confirmation is Alive until there is one, which
// Listener.ReplicaDied tells.
func (v *View) Verdict(podName, process string) Verdict {
	switch podName {
	case noPodName:
		v.warnOnce.Do(func() {
			v.log.Warn("A lock is held by a deployer that does not know the name of its pod; it is never taken over", "pod", podName)
		})
		return Alive
	case v.self.PodName:
		if process == v.self.Process {
			return Alive
		}
		return Dead
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p, now := v.pod(podName), v.clock.Now()
	p.asked = now
	noted := p.note(process)
	if question, _ := p.question(now); noted || question != Nothing {
		v.find(podName, p)
	}
	return p.verdict(process)
}
