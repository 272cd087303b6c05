package replica

// Listener hears of what happens to the replicas. Its methods are called one at a time and in order, without locks held, from one
// goroutine that Run owns. They must not block: Valid cannot become true again while one of them is under way.
type Listener interface {
	// ReplicaDied: Verdict has become Dead for a process of the pod, or for all. It may be told more than once.
	ReplicaDied(podName string)
	// ReplicasChanged: ranks, or who is elected, may have changed.
	ReplicasChanged()
	// Lapsed: Valid has become false. Locks must be given up. It is also told when Run ends.
	Lapsed()
	// Renewed: Valid is true again.
	Renewed()
}

type eventKind int

const (
	replicaDied eventKind = iota
	replicasChanged
	lapsed
	renewed
)

// event is something that listeners have to be told.
type event struct {
	kind    eventKind
	podName string // of replicaDied
}

// tell has the listeners told of an event. View.mu must be held.
func (v *View) tell(e event) {
	if n := len(v.events); n > 0 && v.events[n-1] == e {
		return
	}
	v.events = append(v.events, e)
	select {
	case v.ready <- struct{}{}:
	default:
	}
}

// deliver tells the listeners what they have not been told yet. It must not be called from two goroutines at the same time.
func (v *View) deliver() {
	for {
		events, listeners := v.takeEvents()
		if len(events) == 0 {
			return
		}
		for _, e := range events {
			v.deliverOne(e, listeners)
		}
	}
}

func (v *View) takeEvents() ([]event, []Listener) {
	v.mu.Lock()
	defer v.mu.Unlock()
	events := v.events
	v.events = nil
	return events, v.listeners
}

func (v *View) deliverOne(e event, listeners []Listener) {
	if e.kind == renewed {
		v.mu.Lock()
		v.validity.untold--
		v.mu.Unlock()
	}
	for _, l := range listeners {
		switch e.kind {
		case replicaDied:
			l.ReplicaDied(e.podName)
		case replicasChanged:
			l.ReplicasChanged()
		case lapsed:
			l.Lapsed()
		case renewed:
			l.Renewed()
		}
	}
}
