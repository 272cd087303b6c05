package plugin

import (
	"context"
	"log/slog"
)

// processLog passes records to the current logger of the process, because sdk.Serve sets it only after the deployer
// exists.
type processLog struct {
	// with are the added attributes and groups, in order.
	with []func(slog.Handler) slog.Handler
}

var _ slog.Handler = processLog{}

func (l processLog) handler() slog.Handler {
	h := slog.Default().Handler()
	for _, add := range l.with {
		h = add(h)
	}
	return h
}

// Enabled implements slog.Handler.
func (l processLog) Enabled(ctx context.Context, level slog.Level) bool {
	return l.handler().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (l processLog) Handle(ctx context.Context, r slog.Record) error {
	return l.handler().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l processLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return l.add(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (l processLog) WithGroup(name string) slog.Handler {
	return l.add(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (l processLog) add(f func(slog.Handler) slog.Handler) slog.Handler {
	return processLog{with: append(l.with[:len(l.with):len(l.with)], f)}
}
