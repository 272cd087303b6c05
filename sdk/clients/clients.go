// Package clients keeps clients of targets, so that all jobs with the same credentials share connections and what a
// client has learned.
package clients

import (
	"crypto/sha256"
	"maps"
	"sync"
	"time"
)

const (
	// maxUnused is the time an unused client is kept.
	maxUnused = 10 * time.Minute
	// maxClients bounds the number of clients, used or not.
	maxClients = 200
)

// Cache keeps a client per credentials. It drops clients unused for ten minutes, and the longest unused one of more
// than 200. It does so within Get, and so needs no goroutine. The zero value is empty and ready; it is safe for
// concurrent use.
//
// A dropped client is not closed, because a call may use it: have its transport close idle connections, as a clone of
// http.DefaultTransport does.
type Cache[C any] struct {
	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry[C]
	now     func() time.Time // nil for time.Now
}

type entry[C any] struct {
	client   C
	lastUsed time.Time
}

// Get returns the client for credentials, such as Target.Content, and calls open for a new one. The credentials
// themselves are not kept. open is to send no request: other calls of Get wait for it. Its error is returned as it is.
func (c *Cache[C]) Get(credentials []byte, open func() (C, error)) (C, error) {
	key := sha256.Sum256(credentials)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.now != nil {
		now = c.now()
	}
	maps.DeleteFunc(c.entries, func(_ [sha256.Size]byte, e *entry[C]) bool { return now.Sub(e.lastUsed) > maxUnused })
	if e, ok := c.entries[key]; ok {
		e.lastUsed = now
		return e.client, nil
	}
	client, err := open()
	if err != nil {
		return client, err
	}
	if len(c.entries) >= maxClients {
		c.dropLongestUnused()
	}
	if c.entries == nil {
		c.entries = map[[sha256.Size]byte]*entry[C]{}
	}
	c.entries[key] = &entry[C]{client: client, lastUsed: now}
	return client, nil
}

func (c *Cache[C]) dropLongestUnused() {
	var oldest [sha256.Size]byte
	var found *entry[C]
	for key, e := range c.entries {
		if found == nil || e.lastUsed.Before(found.lastUsed) {
			oldest, found = key, e
		}
	}
	delete(c.entries, oldest)
}
