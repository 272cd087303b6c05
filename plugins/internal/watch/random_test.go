package watch

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// TestNoLostWakeUp has items that look at their objects only when they are woken, while the objects change, come and go
// and change their labels at random times. In the end each item must know the last state of its objects.
func TestNoLostWakeUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason string
		// lifetime of a Run, and whether connections break.
		lifetime time.Duration
		breaks   bool
	}{
		"undisturbed":        {reason: "nothing but the watches tells of changes", lifetime: time.Hour},
		"broken connections": {reason: "a watch goes on where it was", lifetime: time.Hour, breaks: true},
		"Run again":          {reason: "what changed in between is found", lifetime: 500 * time.Millisecond, breaks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t)
			g := &game{world: newWorldOn(t, p.config())}
			g.begin(c.lifetime)
			for range 60 {
				if c.breaks && rand.N(10) == 0 {
					p.breakAll()
				}
				g.changeSomething()
				time.Sleep(rand.N(100 * time.Millisecond))
			}
			last := g.look(t.Context())
			for i := range g.players {
				w := &g.players[i]
				g.Eventually(fmt.Sprintf("item %d to know %v (%s)", i, last, c.reason), func() bool {
					w.mu.Lock()
					defer w.mu.Unlock()
					return maps.Equal(w.known, last)
				})
			}
		})
	}
}

// game is a world with items that look at all objects.
type game struct {
	*world

	players [6]player
}

// gameObjects is how many there are in a game.
const gameObjects = 4

// player is an item.
type player struct {
	woken chan struct{}

	mu    sync.Mutex
	known map[string]Seen
}

// begin lets the items play until the test ends. Run begins again whenever the lifetime is over.
func (g *game) begin(lifetime time.Duration) {
	ctx, cancel := context.WithCancel(g.Context())
	var all sync.WaitGroup
	for i := range g.players {
		g.players[i].woken = make(chan struct{}, 1)
		all.Go(func() { g.play(ctx, i) })
	}
	all.Go(func() {
		for ctx.Err() == nil {
			running, stop := context.WithTimeout(ctx, lifetime)
			_ = g.set.Run(running, g.wake)
			stop()
		}
	})
	g.Cleanup(func() {
		cancel()
		all.Wait()
	})
}

func (g *game) wake(_, name string) {
	var i int
	if _, err := fmt.Sscanf(name, "item%d", &i); err != nil {
		g.Errorf("woke %q, which is no item", name)
		return
	}
	select {
	case g.players[i].woken <- struct{}{}:
	default:
	}
}

// play looks, says what it saw, and waits to be woken.
func (g *game) play(ctx context.Context, i int) {
	player := &g.players[i]
	for {
		seen := g.look(ctx)
		if ctx.Err() != nil {
			return
		}
		player.mu.Lock()
		player.known = seen
		player.mu.Unlock()
		time.Sleep(rand.N(10 * time.Millisecond))
		g.set.Follow(types.NamespacedName{Name: fmt.Sprintf("item%d", i)}, slices.Collect(maps.Values(seen)))
		select {
		case <-player.woken:
		case <-ctx.Done():
			return
		}
	}
}

// look returns all objects as they are.
func (g *game) look(ctx context.Context) map[string]Seen {
	seen := map[string]Seen{}
	for o := range gameObjects {
		name := objectName(o)
		current, err := g.Objects(configMaps.Resource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			seen[name] = g.absent(configMaps, name)
		case err == nil:
			seen[name] = SeenOf(g.client, configMaps, g.absent(configMaps, name).Key, current)
		case ctx.Err() == nil:
			g.Errorf("get %s: %v", name, err)
		}
	}
	return seen
}

// changeSomething changes, creates or deletes an object, with the label of deploy items or without.
func (g *game) changeSomething() {
	g.Helper()
	name := objectName(rand.N(gameObjects))
	if rand.N(4) == 0 {
		if err := g.Objects(configMaps.Resource).Delete(g.Context(), name, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			g.Fatal(err)
		}
		return
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetName(name)
	if rand.N(2) == 0 {
		o.SetLabels(labels)
	}
	o.SetAnnotations(map[string]string{"changed": fmt.Sprint(changes.Add(1))})
	if _, err := g.Objects(configMaps.Resource).Apply(
		g.Context(), name, o, metav1.ApplyOptions{FieldManager: "test", Force: true},
	); err != nil {
		g.Fatal(err)
	}
}

func objectName(i int) string { return fmt.Sprintf("o%d", i) }
