package lock

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Off is what a host has in place of a Locker when it works without locks, because it is the only one. Everything is free, and
// nothing is written.
type Off struct{}

// Look tells that a lock is free.
func (Off) Look(Key, string) View { return Free }

// Left is empty.
func (Off) Left(Key) string { return "" }

// Holds tells that no lock is held.
func (Off) Holds(Key) bool { return false }

// Rank is 0.
func (Off) Rank(Key) int { return 0 }

// Serve does nothing.
func (Off) Serve([]string) {}

// Acquire returns the zero Lock.
func (Off) Acquire(context.Context, Key) (*Lock, error) { return &Lock{}, nil }

// Keep does nothing.
func (Off) Keep(context.Context, string, types.NamespacedName) {}

// Release does nothing.
func (Off) Release(context.Context, Key, string) error { return nil }

// Forget does nothing.
func (Off) Forget(string, types.NamespacedName) {}

// ReleaseAll does nothing.
func (Off) ReleaseAll(context.Context, string) {}
