package session

import (
	"cmp"
	"context"
	"sync/atomic"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// messagesPerSecond bounds the messages of one call in the long run, messageBurst those at once. gRPC's flow control
	// slows the plugin down.
	messagesPerSecond = 200
	messageBurst      = 1000
	// requestsPerSecond bounds its provider statuses and questions, as each may be a request to the API server.
	requestsPerSecond = 10
	requestBurst      = 100
	// maxTargets and maxSecrets bound the different Targets and Secrets of one call.
	maxTargets = 50
	maxSecrets = 50
)

// limits bound the messages of a plugin in one call.
type limits struct {
	messages, requests *rate.Limiter
	targets            map[string]bool // asked for so far
	secrets            map[types.NamespacedName]bool
}

func newLimits() limits {
	return limits{
		messages: rate.NewLimiter(messagesPerSecond, messageBurst),
		requests: rate.NewLimiter(requestsPerSecond, requestBurst),
		targets:  map[string]bool{}, secrets: map[types.NamespacedName]bool{},
	}
}

// waitForTurn blocks until the pace allows one more. The error of gRPC reports a turn after the deadline, or the
// cancellation of the call.
func waitForTurn(ctx context.Context, pace *rate.Limiter) error {
	if pace.Wait(ctx) != nil {
		return status.FromContextError(cmp.Or(ctx.Err(), context.DeadlineExceeded)).Err()
	}
	return nil
}

// admit adds a key, unless it would be one too many.
func admit[Key comparable](asked map[Key]bool, key Key, most int) bool {
	if !asked[key] && len(asked) == most {
		return false
	}
	asked[key] = true
	return true
}

// silence counts the health checks since the plugin's last sign in a call.
type silence struct {
	// waits counts the beginnings and ends of the host's waiting for the plugin, to send a message or to take an answer.
	// It is odd while the host waits.
	waits  atomic.Uint64
	seen   uint64 // waits at the last check
	checks int    // since waits has this value
}

// listen notes that the host waits for the plugin until the call of over.
func (s *silence) listen() (over func()) {
	s.waits.Add(1)
	return func() { s.waits.Add(1) }
}

// check is called at each health check, and returns for how many of them the host has been waiting.
func (s *silence) check() int {
	waits := s.waits.Load()
	if waits%2 == 0 || waits != s.seen {
		s.seen, s.checks = waits, 0
		return 0
	}
	s.checks++
	return s.checks
}
