// Package bounds has the bounds of what a plugin says about its calls, for both sides of the protocol.
package bounds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The bounds of a timeout.
const (
	MinTimeout = time.Second
	MaxTimeout = 7 * 24 * time.Hour
)

// maxQuoted bounds a type in an error.
const maxQuoted = 253

// CheckTimeouts returns all problems of the timeouts of a plugin that serves these types; nil for none.
func CheckTimeouts(timeouts map[v1alpha1.DeployItemType]time.Duration, served []v1alpha1.DeployItemType) error {
	var errs []error
	for _, t := range slices.Sorted(maps.Keys(timeouts)) {
		if !slices.Contains(served, t) { // there are as many others as served types, at most
			return errors.Join(append(errs, fmt.Errorf("expected a served deploy item type, but found %.*q", maxQuoted, t))...)
		}
		if d := timeouts[t]; d < MinTimeout || d > MaxTimeout {
			errs = append(errs, fmt.Errorf("deploy item type %q: expected a timeout from %s to %s, but found %s",
				t, MinTimeout, MaxTimeout, d))
		}
	}
	return errors.Join(errs...)
}
