//go:build !linux

package reaper

import (
	"context"
	"log/slog"
)

// Reaper does nothing: what has left a plugin's process group lives on here.
type Reaper struct{}

// New returns a Reaper.
func New(*slog.Logger) (*Reaper, error) { return &Reaper{}, nil }

// Start calls start.
func (*Reaper) Start(start func() (pid int, err error)) (forget func(), err error) {
	_, err = start()
	return func() {}, err
}

// Run blocks until ctx ends.
func (*Reaper) Run(ctx context.Context) { <-ctx.Done() }
