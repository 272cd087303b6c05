package cache_test

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
)

// TestModel compares with a model: what is there, what had to go, and that nothing in use has.
func TestModel(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "") //nolint:usetesting // it is for one of many runs
		if err != nil {
			t.Fatal(err)
		}
		const maxBytes, maxAge = 20, time.Hour
		clock := stillTicker{clocktesting.NewFakeClock(time.Unix(1e9, 0))}
		c, err := cache.New(cache.Config{Dir: dir, MaxBytes: maxBytes, MaxAge: maxAge, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		m := &model{idle: map[string]time.Time{}}
		content := rapid.Custom(func(t *rapid.T) []byte {
			return bytes.Repeat([]byte{byte(rapid.IntRange('a', 'f').Draw(t, "letter"))}, rapid.IntRange(0, 8).Draw(t, "size"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				content := content.Draw(t, "content")
				entry, err := put(c, content)
				if err != nil {
					t.Fatal(err)
				}
				m.use(entry, content)
				m.trim(clock.Now(), maxBytes, maxAge)
			},
			"get": func(t *rapid.T) {
				content := content.Draw(t, "content")
				entry, err := c.Get(digestOf(content))
				if err != nil || (entry != nil) != m.has(content) {
					t.Fatalf("expected %q to be there: %t, but found %v and %v", content, m.has(content), entry, err)
				}
				if entry != nil {
					m.use(entry, content)
				}
			},
			"clone": func(t *rapid.T) {
				if len(m.held) > 0 {
					h := rapid.SampledFrom(m.held).Draw(t, "held")
					m.use(h.entry.Clone(), h.content)
				}
			},
			"release": func(t *rapid.T) {
				if len(m.held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(m.held)-1).Draw(t, "held")
				h := m.held[i]
				m.held = slices.Delete(m.held, i, i+1)
				h.entry.Release()
				h.entry.Release()
				if m.inUse(h.content) {
					return
				}
				m.idle[string(h.content)] = clock.Now()
				m.order = append(m.order, string(h.content))
				m.trim(clock.Now(), maxBytes, maxAge)
			},
			"wait": func(t *rapid.T) {
				clock.Step(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
			},
			"": func(t *rapid.T) {
				for _, h := range m.held {
					if got, err := os.ReadFile(h.entry.Path()); err != nil || !bytes.Equal(got, h.content) {
						t.Fatalf("expected a file in use to have %q, but found %q and %v", h.content, got, err)
					}
				}
			},
		})
	})
}

// stillTicker is a clock whose tickers never tick: what they remove goes at a time that the model does not know.
type stillTicker struct{ *clocktesting.FakeClock }

func (stillTicker) NewTicker(d time.Duration) clock.Ticker {
	return clocktesting.NewFakeClock(time.Time{}).NewTicker(d)
}

// model is what the cache should have.
type model struct {
	held []held
	// idle are the contents that nobody uses, since when, and order is the order in which they were released.
	idle  map[string]time.Time
	order []string
}

type held struct {
	entry   *cache.Entry
	content []byte
}

func (m *model) inUse(content []byte) bool {
	return slices.ContainsFunc(m.held, func(h held) bool { return bytes.Equal(h.content, content) })
}

func (m *model) has(content []byte) bool {
	_, idle := m.idle[string(content)]
	return idle || m.inUse(content)
}

func (m *model) use(entry *cache.Entry, content []byte) {
	m.held = append(m.held, held{entry: entry, content: content})
	m.forget(string(content))
}

func (m *model) forget(content string) {
	delete(m.idle, content)
	m.order = slices.DeleteFunc(m.order, func(s string) bool { return s == content })
}

func (m *model) size() int64 {
	all := map[string]bool{}
	for _, h := range m.held {
		all[string(h.content)] = true
	}
	for content := range m.idle {
		all[content] = true
	}
	var size int64
	for content := range maps.Keys(all) {
		size += int64(len(content))
	}
	return size
}

func (m *model) trim(now time.Time, most int64, age time.Duration) {
	for len(m.order) > 0 && (m.size() > most || now.Sub(m.idle[m.order[0]]) >= age) {
		m.forget(m.order[0])
	}
}
