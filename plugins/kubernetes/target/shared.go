package target

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// shared is an answer of a target for all callers, so that it is asked for once. The zero value has none.
type shared[T any] struct {
	flight singleflight.Group

	mu    sync.Mutex
	value T
	// asked is the time of the question to the target; zero without an answer.
	asked time.Time
	// outdated: answers to questions before this time are useless.
	outdated time.Time
}

// get returns an answer asked for at the given time or later, and asks if there is none. The timeout bounds the time
// of an answer for all callers.
func (s *shared[T]) get(
	ctx context.Context, since time.Time, timeout time.Duration, ask func(context.Context) (T, error),
) (T, error) {
	if now := time.Now(); since.After(now) {
		since = now
	}
	for {
		if value, ok := s.known(since); ok {
			return value, nil
		}
		answer := s.flight.DoChan("", func() (any, error) {
			if value, ok := s.known(since); ok { // since the look above
				return value, nil
			}
			now := time.Now()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
			defer cancel()
			value, err := ask(ctx)
			switch {
			case err == nil:
				s.set(value, now)
			case ctx.Err() != nil: // the target was late; no caller's time is up
				err = &url.Error{Op: http.MethodGet, Err: fmt.Errorf("no answer for %s", timeout)}
			}
			return nil, err
		})
		select {
		case result := <-answer:
			if result.Err != nil {
				return *new(T), result.Err
			}
		case <-ctx.Done():
			return *new(T), ctx.Err()
		}
	}
}

func (s *shared[T]) known(since time.Time) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value, !s.asked.IsZero() && !s.asked.Before(since) && !s.asked.Before(s.outdated)
}

func (s *shared[T]) set(value T, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value, s.asked = value, asked
}

// forget makes the next caller ask again.
func (s *shared[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outdated = time.Now()
}
