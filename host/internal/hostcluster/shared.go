package hostcluster

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/singleflight"
)

// shared is a value that a request gives, for all who want it. The zero value has none yet.
type shared[T any] struct {
	latest atomic.Pointer[T]
	flight singleflight.Group
}

// get returns the latest value, or asks for a new one if there is none that is usable. All who wait for it share one request, which goes on if
// the first of them gives up, until requestTimeout at the latest. A failure is not remembered.
func (s *shared[T]) get(ctx context.Context, usable func(*T) bool, request func(context.Context) (*T, error)) (*T, error) {
	if latest := s.latest.Load(); latest != nil && usable(latest) {
		return latest, nil
	}
	answer := s.flight.DoChan("", func() (any, error) {
		if latest := s.latest.Load(); latest != nil && usable(latest) {
			return latest, nil // it came between the look above and the request
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		value, err := request(ctx)
		if err != nil {
			return nil, err
		}
		s.latest.Store(value)
		return value, nil
	})
	select {
	case result := <-answer:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(*T), nil //nolint:forcetypeassert // the function above returns nothing else
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
