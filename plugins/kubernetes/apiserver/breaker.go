package apiserver

import (
	"context"
	"sync"
)

type breakerKey struct{}

// breaker remembers the servers with an unanswered request in a call. A nil one remembers nothing.
type breaker struct {
	mu     sync.Mutex
	errors map[string]error // by host
}

// WithBreaker returns a context for one call of a deployer: after a late answer of a target, or its request for a
// pause, all later requests to it fail at once, so that the call ends soon, however many they are.
func WithBreaker(ctx context.Context) context.Context {
	return context.WithValue(ctx, breakerKey{}, &breaker{errors: map[string]error{}})
}

func (b *breaker) tripped(host string) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors[host]
}

func (b *breaker) trip(host string, err error) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors[host] = err
}
