package await_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/test/await"
)

// observed is a test that is looked at, and goes no further than a test does.
type observed struct {
	testing.TB

	ctx  context.Context
	said string
}

func (o *observed) Helper()                  {}
func (o *observed) Context() context.Context { return o.ctx }
func (o *observed) Fatalf(format string, args ...any) {
	o.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// observe returns what a test says when it fails; "" for one that does not.
func observe(t *testing.T, test func(t testing.TB)) string {
	t.Helper()
	o := &observed{TB: t, ctx: t.Context()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(o)
	}()
	<-ended
	return o.said
}

func TestFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason    string
		patience  time.Duration
		condition func(ctx context.Context, n int) (string, error)
		want      string
	}{
		"at once": {
			reason: "nobody waits for what is so", patience: time.Minute,
			condition: func(context.Context, int) (string, error) { return "", nil },
		},
		"in the end": {
			reason: "it takes its time", patience: time.Minute,
			condition: func(_ context.Context, n int) (string, error) { return strings.Repeat("x", max(0, 3-n)), nil },
		},
		"never": {
			reason: "the last thing that was seen says most", patience: time.Nanosecond,
			condition: func(context.Context, int) (string, error) { return "night", nil }, want: "waited for the day in vain for 1ns: night",
		},
		"an error": {
			reason: "it will not go away", patience: time.Minute,
			condition: func(context.Context, int) (string, error) { return "", errors.New("no sun") }, want: "waiting for the day: no sun",
		},
		"an error at the end": {
			reason: "it is about the end of the time only", patience: time.Second,
			condition: func(ctx context.Context, n int) (string, error) {
				if n == 1 {
					return "night", nil
				}
				<-ctx.Done()
				return "", ctx.Err()
			},
			want: "waited for the day in vain for 1s: night",
		},
		"an answer that does not come": {
			reason: "there is nothing else to say", patience: time.Nanosecond,
			condition: func(ctx context.Context, _ int) (string, error) {
				<-ctx.Done()
				return "", ctx.Err()
			},
			want: "waited for the day in vain for 1ns: nothing was found out in that time",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			got := observe(t, func(t testing.TB) {
				await.For(t.Context(), t, c.patience, "the day", func(ctx context.Context) (string, error) {
					n++
					return c.condition(ctx, n)
				})
			})
			if got != c.want {
				t.Errorf("%s: expected %q, but found %q", c.reason, c.want, got)
			}
		})
	}
}

func TestThat(t *testing.T) {
	t.Parallel()
	n := 0
	if said := observe(t, func(t testing.TB) { await.That(t, time.Minute, "the third", func() bool { n++; return n == 3 }) }); said != "" || n != 3 {
		t.Errorf("expected three times and no failure, but found %d times and %q", n, said)
	}
	if said := observe(t, func(t testing.TB) { await.That(t, time.Nanosecond, "it", func() bool { return false }) }); !strings.HasPrefix(said, "waited for it in vain") {
		t.Errorf("expected a failure, but found %q", said)
	}
}
