package description

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// The bounds of a timeout.
const (
	minTimeout = time.Second
	maxTimeout = 7 * 24 * time.Hour
)

// maxQuoted bounds a type in an error.
const maxQuoted = 253

// CheckTimeouts returns all problems of the timeouts of a plugin that serves these types, for both sides of the
// protocol; nil for none.
func CheckTimeouts(timeouts map[string]*durationpb.Duration, served []string) error {
	var errs []error
	for _, t := range slices.Sorted(maps.Keys(timeouts)) {
		if !slices.Contains(served, t) { // there are as many others as served types, at most
			return errors.Join(append(errs, fmt.Errorf("expected a served deploy item type, but found %.*q", maxQuoted, t))...)
		}
		if d := timeouts[t].AsDuration(); d < minTimeout || d > maxTimeout {
			errs = append(errs, fmt.Errorf("deploy item type %q: expected a timeout from %s to %s, but found %s",
				t, minTimeout, maxTimeout, d))
		}
	}
	return errors.Join(errs...)
}
