package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	// shortestPause and longestPause are between two pieces of trouble.
	shortestPause, longestPause = time.Second, 6 * time.Second
	// longestOutage of the target.
	longestOutage = 15 * time.Second
)

// trouble is what happens at random.
type trouble struct {
	*world
	random *rand.Rand
	done   map[string]int
	// restarts of the API server.
	restarts []time.Time
}

// piece of trouble.
type piece struct {
	name   string
	weight int
	make   func(*trouble, context.Context) error
}

var pieces = []piece{
	{"plugins killed", 6, (*trouble).killPlugin},
	{"hosts killed, whose pods are gone", 2, func(t *trouble, ctx context.Context) error { return t.killHost(ctx, true) }},
	{"hosts killed, whose pods stay", 2, func(t *trouble, ctx context.Context) error { return t.killHost(ctx, false) }},
	{"hosts replaced in order", 2, (*trouble).replaceHost},
	{"outages of the target", 3, (*trouble).outage},
	{"restarts of the API server", 1, (*trouble).restartAPIServer},
}

// make makes trouble for a time, one piece after the other.
func (t *trouble) make(ctx context.Context, length time.Duration) error {
	total := 0
	for _, p := range pieces {
		total += p.weight
	}
	over := time.Now().Add(length)
	for time.Now().Before(over) {
		dice := t.random.IntN(total)
		for _, p := range pieces {
			if dice -= p.weight; dice >= 0 {
				continue
			}
			if err := p.make(t, ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			t.done[p.name]++
			break
		}
		if err := t.pause(ctx, shortestPause, longestPause); err != nil {
			return err
		}
	}
	return nil
}

// pause lets others be busy for a while.
func (t *trouble) pause(ctx context.Context, shortest, longest time.Duration) error {
	timer := time.NewTimer(shortest + time.Duration(t.random.Int64N(int64(longest-shortest))))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// victim is any replica but the first one, whose host stays alive, so that it can be measured.
func (t *trouble) victim() int { return 1 + t.random.IntN(len(t.fleet)-1) }

// bereaved is any replica, the first one, too: what its host keeps of plugins that have died is measured.
func (t *trouble) bereaved() int { return t.random.IntN(len(t.fleet)) }

// killPlugin kills a plugin of a replica, if it runs.
func (t *trouble) killPlugin(context.Context) error {
	children, err := t.fleet[t.bereaved()].Children()
	if err != nil {
		return err
	}
	name := []string{"counter", "manifest"}[t.random.IntN(2)]
	for _, pid := range children[name] {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill plugin %s: %w", name, err)
		}
	}
	return nil
}

// killHost kills a replica, which another one takes the place of. Its pod is deleted, or stays, as on a node that is lost.
func (t *trouble) killHost(ctx context.Context, deletePod bool) error {
	r := t.remove(t.victim())
	killCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.Kill(killCtx); err != nil {
		return err
	}
	if deletePod {
		if err := r.DeletePod(ctx); err != nil {
			return err
		}
	}
	return t.launch(ctx)
}

// replaceHost starts a replica and stops another one, as a rolling upgrade does.
func (t *trouble) replaceHost(ctx context.Context) error {
	if err := t.launch(ctx); err != nil {
		return err
	}
	r := t.remove(t.victim())
	stopCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.Stop(stopCtx); err != nil {
		return err
	}
	return client.IgnoreNotFound(r.DeletePod(ctx))
}

func (t *trouble) remove(i int) *testenv.Replica {
	r := t.fleet[i]
	t.fleet = slices.Delete(t.fleet, i, i+1)
	return r
}

// outage lets nobody get through to the target for a while.
func (t *trouble) outage(ctx context.Context) error {
	t.targetAway.Store(true)
	defer t.targetAway.Store(false)
	return t.pause(ctx, shortestPause, longestOutage)
}

// restartAPIServer restarts the API server, whose clients have to see for themselves how they go on.
func (t *trouble) restartAPIServer(context.Context) error {
	t.restarts = append(t.restarts, time.Now())
	return t.controlPlane.RestartAPIServer()
}

// String lists what has happened.
func (t *trouble) String() string {
	var parts []string
	for _, p := range pieces {
		parts = append(parts, fmt.Sprintf("%d %s", t.done[p.name], p.name))
	}
	return strings.Join(parts, ", ")
}
