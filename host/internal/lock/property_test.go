package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// rival is one of several processes that want the same locks. What it knows of the others it sees when the test lets
// it.
type rival struct {
	*member
	locker *Locker
	api    *flakyAPI
	stop   func() error
	// gone: it was killed, and has not been started again.
	gone bool
}

// Freed and Lost are of no interest here: who wants a lock tries.
func (*rival) Freed(Key) {}
func (*rival) Lost(Key)  {}

// seeLocks has the process see the locks as they are, and are not any more.
func (r *rival) seeLocks(keys []Key) {
	for _, key := range keys {
		object := &v1alpha1.SyncObject{}
		if err := r.w.server.Get(context.Background(), objectName("", key), object); err == nil {
			r.locker.Seen(object)
		}
	}
}

// rivals are the processes, one for each pod, before one API server.
type rivals struct {
	w       *world
	t       *rapid.T
	byPod   map[string]*rival
	keys    []Key
	history []string
}

func (s *rivals) fail(format string, args ...any) {
	s.t.Fatalf(format+"\nhistory:\n%s", append(args, strings.Join(s.history, "\n"))...)
}

// start starts a process in a pod.
func (s *rivals) start(podName string) {
	r := &rival{member: s.w.replica(podName), api: &flakyAPI{API: s.w.server}}
	r.locker = New(Options{API: r.api, Replicas: r.Replicas, Listener: r, Metrics: NewMetrics(),
		Log: slog.New(slog.DiscardHandler)})
	r.Subscribe(r.locker.ReplicasChanged)
	r.stop = r.run()
	r.see()
	r.seeLocks(s.keys)
	s.byPod[podName] = r
}

// kill ends a process without a word to the others.
func (r *rival) kill() {
	r.cut.Store(true)
	r.api.refused = true
	_ = r.stop()
	r.gone = true
}

// step is something that happens.
func (s *rivals) step() {
	pod := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(s.t, "pod")
	key := rapid.SampledFrom(s.keys).Draw(s.t, "lock")
	what := rapid.SampledFrom([]string{
		"acquire", "acquire", "acquire", "acquire", "release", "release without answer", "acquire without answer",
		"see locks", "see locks",
		"see others", "see others", "cut", "heal", "heal", "time", "time", "much time", "kill", "start", "delete pod", "stop",
	}).Draw(s.t, "step")
	s.history = append(s.history, fmt.Sprintf("%s: %s %s", pod, what, key.Item.Name))
	r := s.byPod[pod]
	ctx := context.Background()
	switch what {
	case "time":
		passTime(time.Duration(rapid.IntRange(1, 5000).Draw(s.t, "milliseconds")) * time.Millisecond)
	case "much time":
		passTime(time.Duration(rapid.IntRange(5, 20).Draw(s.t, "seconds")) * time.Second)
	case "start":
		if r.gone {
			s.ensurePod(pod)
			s.start(pod)
		}
	case "delete pod":
		if r.gone && s.hasPod(pod) { // the kubelet ends what runs in it
			s.w.deletePod(pod)
		}
	case "see others":
		r.see()
	}
	if r.gone {
		return
	}
	switch what {
	case "acquire", "acquire without answer":
		r.api.unanswered = what != "acquire"
		if _, err := r.locker.Acquire(ctx, key); err == nil {
			r.locker.Keep(ctx, key.Plugin, key.Item)
		}
	case "release", "release without answer":
		r.api.unanswered = what != "release"
		_ = r.locker.Release(ctx, key, "")
	case "see locks":
		r.seeLocks(s.keys)
	case "cut", "heal":
		r.cut.Store(what == "cut")
	case "kill":
		r.kill()
	case "stop":
		stopping, cancel := context.WithCancel(ctx)
		cancel()
		_ = errors.Join(r.locker.Start(stopping), r.stop())
		r.gone = true
	}
	r.api.unanswered = false
}

func (s *rivals) hasPod(name string) bool {
	return s.w.server.Get(context.Background(), s.byPod[name].key(name), podMetadata()) == nil
}

func (s *rivals) ensurePod(name string) {
	if !s.hasPod(name) {
		s.w.pod(name)
	}
}

// check is the invariant: who holds a lock and can show that it is alive is the one that it names, so there is one at
// most.
func (s *rivals) check() {
	for _, key := range s.keys {
		object := &v1alpha1.SyncObject{}
		_ = s.w.server.Get(context.Background(), objectName("", key), object)
		for _, r := range s.byPod {
			if !r.gone && r.locker.Holds(key) && r.Valid() && !r.locker.isOurs(object) {
				s.fail("%s holds the lock of %s and is alive, but it names %q", r.process, key.Item.Name, processOf(object))
			}
		}
	}
}

// end has everything heal, and ends all processes. Before that every lock can be had by somebody.
func (s *rivals) end() {
	s.history = append(s.history, "everything heals")
	for pod, r := range s.byPod {
		r.cut.Store(false)
		if r.gone {
			s.ensurePod(pod)
			s.start(pod)
		}
	}
	passTime(2 * leaseDuration)
	for _, key := range s.keys {
		for range 3 { // each sees what the others have done
			for _, r := range s.byPod {
				r.see()
				r.seeLocks(s.keys)
				_ = r.locker.Release(context.Background(), key, "")
			}
		}
		for pod, r := range s.byPod {
			r.seeLocks(s.keys)
			if _, err := r.locker.Acquire(context.Background(), key); err != nil {
				s.fail("%s cannot have the lock of %s: %v", pod, key.Item.Name, err)
			}
			_ = r.locker.Release(context.Background(), key, "")
		}
	}
	for _, r := range s.byPod {
		_ = r.stop()
		r.gone = true
	}
	synctest.Wait()
}

// TestNeverTwoHolders: whatever dies, is cut off or comes back, and however late anybody hears of it, a lock is never
// taken from who can show that it is alive, and none is lost for good.
// Rule (architecture.md#why-they-are-safe): Whatever dies, is cut off or comes back, a lock is never taken from a live
// holder.
func TestNeverTwoHolders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failure any // has to leave the bubble
		synctest.Test(t, func(t *testing.T) {
			s := &rivals{w: newWorld(t), t: rt, byPod: map[string]*rival{}, keys: []Key{newKey(), newKey()}}
			defer func() {
				failure = recover()
				for _, r := range s.byPod {
					if !r.gone {
						r.kill()
					}
				}
			}()
			s.keys[0].Item.Name = "other"
			for _, pod := range []string{"a", "b", "c"} {
				s.w.pod(pod)
				s.start(pod)
			}
			for range rapid.IntRange(10, 30).Draw(rt, "steps") {
				s.step()
				s.check()
			}
			s.end()
		})
		if failure != nil {
			panic(failure) //nolint:forbidigo // as rapid does
		}
	})
}
