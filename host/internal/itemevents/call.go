package itemevents

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/text"
)

const reasonTooManyEvents = "TooManyEvents"

const (
	// MaxOfCall bounds the events of a plugin in one call: they flood neither the API server nor the log.
	MaxOfCall = 20
	// delay is the wait of an event for others with its reason.
	delay = time.Second
)

// Call records the events of a plugin during one call. Those with the same reason within a second become one: the
// API server's clients would keep only the first text, and count the others.
type Call struct {
	// Plugin is the name of the plugin.
	Plugin string
	// Record records one event.
	Record func(eventType, reason, message string)
	Now    func() time.Time
	Log    *slog.Logger

	mu      sync.Mutex
	count   int // with those that were dropped
	normal  bool
	batches []*batch
}

// Add records an event of the plugin.
func (c *Call) Add(warning bool, reason, message string) {
	eventType := corev1.EventTypeNormal
	if warning {
		eventType = corev1.EventTypeWarning
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.normal = c.normal || !warning
	i := slices.IndexFunc(c.batches, func(b *batch) bool { return b.eventType == eventType && b.reason == reason })
	if i >= 0 {
		c.batches[i].add(message)
		return
	}
	switch c.count++; {
	case c.count < MaxOfCall:
		b := &batch{eventType: eventType, reason: reason, since: c.Now()}
		b.add(message)
		c.batches = append(c.batches, b)
	case c.count == MaxOfCall:
		c.Record(corev1.EventTypeWarning, reasonTooManyEvents,
			fmt.Sprintf("the plugin %q records more than %d events in one call; the others are dropped; "+
				"the first of them is in the host's log", c.Plugin, MaxOfCall-1))
		c.Log.Info("plugin has too many events; this is the first that is dropped",
			"type", eventType, "reason", reason, "message", message)
	default: // End logs their number
	}
}

// Normal reports whether an event other than a warning was added.
func (c *Call) Normal() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.normal
}

// Flush records the events that have waited for others long enough.
func (c *Call) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	c.batches = slices.DeleteFunc(c.batches, func(b *batch) bool {
		due := now.Sub(b.since) >= delay
		if due {
			c.Record(b.eventType, b.reason, b.note())
		}
		return due
	})
}

// End records the rest after the call, and logs the number of dropped events.
func (c *Call) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.batches {
		c.Record(b.eventType, b.reason, b.note())
	}
	c.batches = nil
	if dropped := c.count - MaxOfCall + 1; dropped > 0 {
		c.Log.Info("events of the plugin were dropped", "count", dropped)
	}
}

// batch has the texts of several events of one type and reason.
type batch struct {
	eventType, reason string
	since             time.Time
	// texts differ from one another. Those without room in an event are only counted.
	texts   []string
	size    int
	dropped int
}

// add adds a text, once.
func (b *batch) add(text string) {
	switch {
	case slices.Contains(b.texts, text):
	case b.size > maxNote:
		b.dropped++
	default:
		b.texts = append(b.texts, text)
		b.size += len(text)
	}
}

// note lists the texts as far as there is room for them, and counts the rest.
func (b *batch) note() string {
	for n := len(b.texts); n > 1; n-- {
		note := strings.Join(b.texts[:n], "; ") + andMore(len(b.texts)-n+b.dropped)
		if len(note) <= maxNote {
			return note
		}
	}
	rest := andMore(len(b.texts) - 1 + b.dropped)
	return text.Cut(b.texts[0], maxNote-len(rest)) + rest
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}
