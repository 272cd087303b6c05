package replica

import "time"

// validity is whether this replica may count as alive, and what the listeners know of it.
type validity struct {
	length time.Duration // how long after the beginning of a renewal
	until  time.Time
	// over: it does not become valid again.
	over bool
	// lapsed: the last that was said is that it has lapsed.
	lapsed bool
	// untold counts the lapses whose end has not been told yet. A replica that was stopped for long and goes on may lapse and be renewed
	// in the same moment; it is not valid before everybody has given up what is lost.
	untold int
}

func (v *validity) valid(now time.Time) bool { return v.untold == 0 && !v.expired(now) }

func (v *validity) expired(now time.Time) bool { return v.over || !now.Before(v.until) }

// check tells whether there is a lapse to be told.
func (v *validity) check(now time.Time) bool {
	if v.lapsed || !v.expired(now) {
		return false
	}
	v.lapsed = true
	v.untold++
	return true
}

// renewed takes note of a renewal that began at a time, and tells whether the end of a lapse is to be told.
func (v *validity) renewed(began, now time.Time) bool {
	v.until = began.Add(v.length)
	if !v.lapsed || v.expired(now) {
		return false
	}
	v.lapsed = false
	return true
}

// next is how long it takes at least until there may be a lapse to be told. A renewal takes half of the length at most, so a replica
// that has lapsed and is renewed stays valid for the other half.
func (v *validity) next(now time.Time) time.Duration {
	if v.lapsed {
		return v.length / 2
	}
	return v.until.Sub(now)
}
