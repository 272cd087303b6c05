// Package await lets tests wait for conditions, so that time never decides a test: how long one waits bounds only how
// long a failure takes.
package await

import (
	"context"
	"testing"
	"time"
)

// pause is how long it takes at most to see that a condition holds.
const pause = 20 * time.Millisecond

// For waits until a condition returns "", which otherwise says what is there instead. The test fails at an error, and
// after the given time with what was said last, or when the context ends, which is mostly the test's.
func For(
	ctx context.Context, t testing.TB, patience time.Duration, what string,
	condition func(ctx context.Context) (instead string, err error),
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := "nothing was found out in that time"
	for {
		instead, err := condition(ctx)
		switch {
		case err == nil && instead == "":
			return
		case err == nil:
			found = instead
		case ctx.Err() == nil:
			t.Fatalf("waiting for %s: %v", what, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			t.Fatalf("waited for %s in vain for %s: %s", what, patience, found)
		}
	}
}

// That waits until something is so. The test fails if it is not after the given time.
func That(t testing.TB, patience time.Duration, what string, so func() bool) {
	t.Helper()
	For(t.Context(), t, patience, what, func(context.Context) (string, error) {
		if so() {
			return "", nil
		}
		return "it is not so", nil
	})
}

// Until waits until something is so where there is no test, and reports whether it is.
func Until(patience time.Duration, so func() bool) bool {
	for over := time.After(patience); !so(); {
		select {
		case <-time.After(pause):
		case <-over:
			return so()
		}
	}
	return true
}
