package targetclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

// waitUntil waits for a condition, and fails the test if it does not come true on a very slow machine either.
func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func granted(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestCallsTakeTurns(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	l := newLimiter(clock, 8, 3)
	var many, few []chan struct{}
	for range 500 {
		many = append(many, l.join("many"))
	}
	for range 2 {
		few = append(few, l.join("few"))
	}
	if !granted(many[2]) || granted(many[3]) {
		t.Fatal("expected the burst, and no more, to be granted at once")
	}
	var order []string
	for range 5 {
		fewBefore, waitingBefore := count(few), waitingFor(l)
		clock.Step(125 * time.Millisecond)
		waitUntil(t, "the next token", func() bool { return waitingFor(l) == waitingBefore-1 })
		if count(few) > fewBefore {
			order = append(order, "few")
		} else {
			order = append(order, "many")
		}
	}
	if diff := cmp.Diff([]string{"many", "few", "many", "few", "many"}, order); diff != "" {
		t.Errorf("who got tokens: -want +got:\n%s", diff)
	}
}

// TestIdleTime is not saved for later.
func TestIdleTime(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	l := newLimiter(clock, 10, 3)
	clock.Step(time.Hour)
	var requests []chan struct{}
	for range 10 {
		requests = append(requests, l.join("a"))
	}
	if got := count(requests); got != 3 {
		t.Errorf("expected the burst of 3, but found %d", got)
	}
}

func count(requests []chan struct{}) int {
	n := 0
	for _, c := range requests {
		if granted(c) {
			n++
		}
	}
	return n
}

// TestLimiterProperties joins and leaves at random.
func TestLimiterProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const perSecond, burst = 10, 4
		calls := []string{"a", "b", "c"}
		clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
		l := newLimiter(manualClock{clocktesting.NewFakeClock(time.Unix(0, 0)), clock}, perSecond, burst)
		type waiter struct {
			call    string
			granted chan struct{}
		}
		var waiting []waiter
		var elapsed time.Duration
		grants := 0
		// passedOver counts for each waiting call how often each other call was served since it waits or was served itself. Each may
		// come once before it.
		passedOver := map[string]map[string]int{}
		settle := func() {
			var still []waiter
			served := map[string]int{}
			for _, w := range waiting {
				if granted(w.granted) {
					grants++
					served[w.call]++
				} else {
					still = append(still, w)
				}
			}
			waiting = still
			for _, call := range calls {
				if !slices.ContainsFunc(waiting, func(w waiter) bool { return w.call == call }) {
					delete(passedOver, call)
					continue
				}
				if served[call] > 0 || passedOver[call] == nil {
					passedOver[call] = map[string]int{}
					continue
				}
				for other, n := range served {
					if passedOver[call][other] += n; passedOver[call][other] > 1 {
						t.Fatalf("call %q was served %d times while %q waited", other, passedOver[call][other], call)
					}
				}
			}
			if limit := burst + int(elapsed.Seconds()*perSecond+1e-6); grants > limit {
				t.Fatalf("%d requests in %s, expected at most %d", grants, elapsed, limit)
			}
			if l.tokens >= 1 && len(waiting) > 0 {
				t.Fatalf("%d requests wait in spite of %f tokens", len(waiting), l.tokens)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				call := rapid.SampledFrom(calls).Draw(t, "call")
				waiting = append(waiting, waiter{call, l.join(call)})
				settle()
			},
			"leave": func(t *rapid.T) {
				if len(waiting) == 0 {
					t.Skip("nobody waits")
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(t, "who")
				w := waiting[i]
				waiting = slices.Delete(waiting, i, i+1)
				l.leave(w.call, w.granted)
				settle()
			},
			"wait": func(t *rapid.T) {
				d := time.Duration(rapid.IntRange(1, 300).Draw(t, "ms")) * time.Millisecond
				elapsed += d
				clock.SetTime(clock.Now().Add(d))
				l.tick()
				settle()
			},
		})
		if len(waiting) == 0 && len(l.turns) > 0 {
			t.Fatal("nobody waits, but a turn is kept")
		}
	})
}

// manualClock has timers that never run; the test does what they would.
type manualClock struct {
	*clocktesting.FakeClock

	now *clocktesting.FakePassiveClock
}

func (c manualClock) Now() time.Time { return c.now.Now() }

func TestWaitingForTheRateEndsWithTheContext(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	l := newLimiter(clock, 1, 1)
	if err := l.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.wait(ctx) }()
	waitUntil(t, "the request to wait", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.turns) == 1
	})
	why := errors.New("because")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Errorf("expected the cause, but found %v", err)
	}
	clock.Step(time.Second)
	if err := l.wait(t.Context()); err != nil {
		t.Errorf("expected that the token was not lost, but found %v", err)
	}
}

// TestTokenOfWhoLeft grants a token to a request that does not wait any more.
func TestTokenOfWhoLeft(t *testing.T) {
	t.Parallel()
	l := newLimiter(clocktesting.NewFakeClock(time.Now()), 1, 1)
	first, second := l.join("a"), l.join("b")
	if !granted(first) || granted(second) {
		t.Fatal("expected the first to be granted")
	}
	l.leave("a", first)
	if !granted(second) {
		t.Error("expected the token to go to the next")
	}
}

func TestRateLimitOfAClient(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var order []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		order = append(order, r.URL.Query().Get("fieldManager"))
		mu.Unlock()
		answerObject(w)
	}))
	t.Cleanup(server.Close)
	clock := clocktesting.NewFakeClock(time.Now())
	client, err := NewCache("test", RateLimit(1, 1), WithClock(clock)).Get(kubeconfigFor(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	patch := func(call string) {
		calls.Go(func() {
			// The field manager tells the server who it is.
			_, err := client.Objects(configMaps, "ns").Patch(ForCall(t.Context(), call), "a", "application/merge-patch+json", []byte("{}"),
				metav1.PatchOptions{FieldManager: call})
			if err != nil {
				t.Errorf("patch: %v", err)
			}
		})
	}
	seen := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(order)
	}
	patch("many")
	waitUntil(t, "the first request", func() bool { return seen() == 1 })
	for range 5 {
		patch("many")
	}
	l := client.guard.limiter
	waitUntil(t, "five requests to wait", func() bool { return waitingFor(l) == 5 })
	patch("few")
	waitUntil(t, "six requests to wait", func() bool { return waitingFor(l) == 6 })
	for i := range 6 {
		clock.Step(time.Second)
		waitUntil(t, "another request", func() bool { return seen() == i+2 && waitingFor(l) == 5-i })
	}
	calls.Wait()
	if diff := cmp.Diff([]string{"many", "many", "few", "many", "many", "many", "many"}, order); diff != "" {
		t.Errorf("order of requests: -want +got:\n%s", diff)
	}
}

func waitingFor(l *limiter) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, turn := range l.turns {
		n += len(turn.waiting)
	}
	return n
}

// TestTooManyRequests has the server ask for a pause, which client-go grants.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var times []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
		if len(times) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		answerObject(w)
	}))
	t.Cleanup(server.Close)
	client, err := NewCache("test").Get(kubeconfigFor(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Objects(configMaps, "ns").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Fatalf("expected the request to be repeated, but found %v", err)
	}
	if len(times) != 2 || times[1].Sub(times[0]) < time.Second {
		t.Errorf("expected another request after the pause that the server asked for, but found %v", times)
	}
}

func answerObject(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"ns","resourceVersion":"1"}}`)
}

func BenchmarkLimiter(b *testing.B) {
	l := newLimiter(clocktesting.NewFakeClock(time.Now()), 1e12, 1<<30)
	b.ReportAllocs()
	for b.Loop() {
		if err := l.wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
