package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/text"
	corev1 "k8s.io/api/core/v1"
)

const (
	// maxEvents is how many events a plugin can have in one call.
	maxEvents = 20
	// eventDelay is how long an event waits for others with its reason.
	eventDelay = time.Second
)

// batch is what a plugin says in one call under one reason. The API server's clients keep the first of several events
// with one reason and count the others, so that their texts would be lost.
type batch struct {
	eventType, reason string
	since             time.Time
	// texts differ from one another; those that no event has room for are only counted.
	texts   []string
	size    int
	dropped int
}

// add notes a text, once.
func (b *batch) add(text string) {
	switch {
	case slices.Contains(b.texts, text):
	case b.size > maxEventNote:
		b.dropped++
	default:
		b.texts = append(b.texts, text)
		b.size += len(text)
	}
}

// note lists the texts, and says how many there are that it has no room for.
func (b *batch) note() string {
	for n := len(b.texts); n > 1; n-- {
		note := strings.Join(b.texts[:n], "; ") + andMore(len(b.texts)-n+b.dropped)
		if len(note) <= maxEventNote {
			return note
		}
	}
	rest := andMore(len(b.texts) - 1 + b.dropped)
	return text.Cut(b.texts[0], maxEventNote-len(rest)) + rest
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; and %d more", n)
}

// Event records an event of the deploy item, together with the others of this call that have its reason. Beyond
// maxEvents in a call they are dropped, so that they flood neither the API server nor the host's log.
func (o *observer) Event(warning bool, reason, message string) {
	eventType := corev1.EventTypeNormal
	if warning {
		eventType = corev1.EventTypeWarning
	}
	o.job.mu.Lock()
	defer o.job.mu.Unlock()
	o.job.told = o.job.told || !warning
	i := slices.IndexFunc(o.batches, func(b *batch) bool { return b.eventType == eventType && b.reason == reason })
	if i >= 0 {
		o.batches[i].add(message)
		return
	}
	switch o.events++; {
	case o.events < maxEvents:
		b := &batch{eventType: eventType, reason: reason, since: o.job.r.clock.Now()}
		b.add(message)
		o.batches = append(o.batches, b)
	case o.events == maxEvents:
		o.job.r.event(o.job.item, corev1.EventTypeWarning, "TooManyEvents",
			fmt.Sprintf("the plugin %q records more than %d events in one call; the others are dropped; "+
				"the first of them is in the host's log", o.job.r.name, maxEvents-1))
		o.job.log.Info("plugin has too many events; this is the first that is dropped",
			"type", eventType, "reason", reason, "message", message)
	default: // endEvents logs how many
	}
}

// recordEvents records the events that have waited for others long enough.
func (o *observer) recordEvents() {
	o.job.mu.Lock()
	defer o.job.mu.Unlock()
	now := o.job.r.clock.Now()
	o.batches = slices.DeleteFunc(o.batches, func(b *batch) bool {
		due := now.Sub(b.since) >= eventDelay
		if due {
			o.record(b)
		}
		return due
	})
}

// endEvents records, after the call, the events that still wait, and logs how many were dropped.
func (o *observer) endEvents() {
	o.job.mu.Lock()
	defer o.job.mu.Unlock()
	for _, b := range o.batches {
		o.record(b)
	}
	o.batches = nil
	if dropped := o.events - maxEvents + 1; dropped > 0 {
		o.job.log.Info("events of the plugin were dropped", "count", dropped)
	}
}

// record needs the job's lock.
func (o *observer) record(b *batch) { o.job.r.event(o.job.item, b.eventType, b.reason, b.note()) }
