package registration

import "time"

const (
	minRetry = time.Second
	maxRetry = 30 * time.Second
)

// backoff makes pauses that double, from minRetry to maxRetry. The zero value begins anew.
type backoff struct {
	last time.Duration
}

// fail returns the pause after a failure.
func (b *backoff) fail() time.Duration {
	b.last = min(max(2*b.last, minRetry), maxRetry)
	return b.last
}
