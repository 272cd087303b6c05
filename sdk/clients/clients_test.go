package clients

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// Rule (plugin-authors.md#kit): A clients.Cache keeps one client for equal credentials, at most 200 of them, each until
// it is unused for ten minutes.
func TestCache(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cache := Cache[*string]{now: func() time.Time { return now }}
	get := func(credentials string) *string {
		t.Helper()
		client, err := cache.Get([]byte(credentials), func() (*string, error) { return &credentials, nil })
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	first := get("one")
	for _, c := range []struct {
		reason      string
		after       time.Duration
		credentials string
		same        bool
	}{
		{"the same credentials", 9 * time.Minute, "one", true},
		{"others", 0, "two", false},
		{"a client that is used every nine minutes", 9 * time.Minute, "one", true},
		{"an unused client", 11 * time.Minute, "one", false},
	} {
		now = now.Add(c.after)
		if same := get(c.credentials) == first; same != c.same {
			t.Errorf("%s: expected the same client: %t, but found %t", c.reason, c.same, same)
		}
	}
	if len(cache.entries) != 1 {
		t.Errorf("expected unused clients to be dropped, but found %d", len(cache.entries))
	}
	for i := range maxClients + 10 {
		now = now.Add(time.Millisecond)
		get(fmt.Sprint("many", i))
	}
	if len(cache.entries) != maxClients {
		t.Errorf("expected %d clients, but found %d", maxClients, len(cache.entries))
	}
}

// A client that cannot be made is not kept.
func TestCacheError(t *testing.T) {
	t.Parallel()
	var cache Cache[string]
	for _, want := range []error{errors.New("no"), nil} {
		client, err := cache.Get(nil, func() (string, error) { return "client", want })
		if !errors.Is(err, want) || err == nil && client != "client" {
			t.Errorf("expected %v, but found %q and %v", want, client, err)
		}
	}
}
