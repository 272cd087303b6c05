package plugin

import "time"

const (
	firstPause = 250 * time.Millisecond
	maxPause   = 30 * time.Second
	// stableAfter is how long a process must live for its earlier failures to be forgotten.
	stableAfter = time.Minute
)

// backoff is the pause before the next start after so many failures in a row: it doubles from a quarter of a second to half a
// minute. random, from [0, 1), takes up to a fifth off, so that plugins that fail together do not start together.
func backoff(failures int, random float64) time.Duration {
	pause := maxPause
	if failures < 16 { // shifting further would overflow
		pause = min(firstPause<<failures, maxPause)
	}
	return pause - time.Duration(random*float64(pause)/5)
}
