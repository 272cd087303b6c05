package lock

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// lastHolderTime is how long the holder of a lock is remembered whose object was deleted.
	lastHolderTime = 10 * time.Minute
	// manyLastHolders is how many are remembered before old ones are looked for.
	manyLastHolders = 1000
)

// lastHolders are the holders of locks whose objects were deleted while they were held, as the namespace controller does when a
// namespace is deleted. They are remembered for a while.
type lastHolders struct {
	clock clock.PassiveClock
	of    map[types.NamespacedName]lastHolder
}

type lastHolder struct {
	record record
	at     time.Time
}

func (h *lastHolders) note(name types.NamespacedName, known record) {
	if known.podName == "" {
		return
	}
	if len(h.of) >= manyLastHolders {
		for name, last := range h.of {
			if h.clock.Since(last.at) >= lastHolderTime {
				delete(h.of, name)
			}
		}
	}
	h.of[name] = lastHolder{record: known, at: h.clock.Now()}
}

func (h *lastHolders) get(name types.NamespacedName) (record, bool) {
	last, known := h.of[name]
	if !known || h.clock.Since(last.at) >= lastHolderTime {
		return record{}, false
	}
	return last.record, true
}
