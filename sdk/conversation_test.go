package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"pgregory.net/rapid"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// fakeStream is a conversation's stream, and the host's end of it.
type fakeStream struct {
	grpc.ServerStream // nil; nobody uses it

	ctx    context.Context //nolint:containedctx // it stands for a stream, which has one
	toHost chan *deployerv1.PluginMessage
	toPlug chan *deployerv1.HostMessage
}

func newFakeStream(ctx context.Context) *fakeStream {
	return &fakeStream{
		ctx:    ctx,
		toHost: make(chan *deployerv1.PluginMessage, 1000),
		toPlug: make(chan *deployerv1.HostMessage),
	}
}

func (f *fakeStream) Context() context.Context { return f.ctx }

func (f *fakeStream) Send(m *deployerv1.PluginMessage) error {
	f.toHost <- m
	return nil
}

func (f *fakeStream) Recv() (*deployerv1.HostMessage, error) {
	select {
	case m, ok := <-f.toPlug:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-f.ctx.Done():
		return nil, context.Cause(f.ctx)
	}
}

func acknowledgement(sequence uint64, refused string) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{
		Acknowledgement: &deployerv1.Acknowledgement{Sequence: sequence, Error: refused},
	}}
}

// Several goroutines save at once, and the host answers in any order: each gets the answer to its own document.
func TestAcknowledgementsReachTheirSavers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		refused := rapid.SliceOfN(rapid.Bool(), 1, 20).Draw(rt, "refused")
		order := rapid.Permutation(indices(len(refused))).Draw(rt, "order")

		f := newFakeStream(ctx)
		c := openConversation(f, &deployerv1.Start{ResolvesTargets: true})
		answers := make([]error, len(refused))
		var savers sync.WaitGroup
		for i := range refused {
			savers.Go(func() { answers[i] = c.saveProviderStatus(ctx, fmt.Appendf(nil, "%d", i)) })
		}
		sequences := make([]uint64, len(refused)) // by saver
		for range refused {
			status := (<-f.toHost).GetProviderStatus()
			var saver int
			if _, err := fmt.Sscan(string(status.GetDocument()), &saver); err != nil {
				rt.Fatal(err)
			}
			sequences[saver] = status.GetSequence()
		}
		f.toPlug <- acknowledgement(uint64(len(refused)+1), "nobody waits for this one")
		for _, saver := range order {
			why := ""
			if refused[saver] {
				why = fmt.Sprintf("refused %d", saver)
			}
			f.toPlug <- acknowledgement(sequences[saver], why)
			f.toPlug <- acknowledgement(sequences[saver], "a second answer does not count")
		}
		savers.Wait()
		for saver, err := range answers {
			if (err != nil) != refused[saver] || err != nil && !strings.HasSuffix(err.Error(), fmt.Sprintf("refused %d", saver)) {
				rt.Errorf("saver %d (refused: %v) got %v", saver, refused[saver], err)
			}
		}
		if err := c.finish(&deployerv1.Result{}); err != nil {
			rt.Fatal(err)
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// Goroutines that a deployer left behind talk on while the result is sent: nothing of it comes after the result.
func TestNothingFollowsTheResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithCancel(t.Context())
		talkers := rapid.IntRange(1, 8).Draw(rt, "talkers")
		before := rapid.IntRange(1, 20).Draw(rt, "messages before the result")

		f := newFakeStream(ctx)
		c := openConversation(f, &deployerv1.Start{ResolvesTargets: true})
		talked, heard := make(chan struct{}), make(chan []*deployerv1.PluginMessage)
		go func() {
			var all []*deployerv1.PluginMessage
			for m := range f.toHost {
				if all = append(all, m); len(all) == before {
					close(talked)
				}
			}
			heard <- all
		}()
		var talking sync.WaitGroup
		for i := range talkers {
			talking.Go(func() {
				for ctx.Err() == nil {
					if i%2 == 0 {
						c.progress("late", "still talking")
					} else {
						c.event(true, "Late", "still talking")
					}
				}
			})
			talking.Go(func() { _ = c.saveProviderStatus(ctx, []byte("{}")) })
			talking.Go(func() { _, _ = c.resolveTarget(ctx, "other") })
		}
		<-talked
		if err := c.finish(&deployerv1.Result{}); err != nil {
			rt.Fatal(err)
		}
		if err := c.saveProviderStatus(ctx, []byte("{}")); !errors.Is(err, errOver) {
			rt.Errorf("expected %v from a save after the result, but found %v", errOver, err)
		}
		if _, err := c.resolveTarget(ctx, "other"); !errors.Is(err, errOver) {
			rt.Errorf("expected %v from a question after the result, but found %v", errOver, err)
		}
		c.progress("late", "the very last")
		cancel()
		talking.Wait()

		close(f.toHost)
		all := <-heard
		for i, m := range all {
			if isLast := i == len(all)-1; isLast != (m.GetResult() != nil) {
				rt.Errorf("message %d of %d is a %T", i+1, len(all), m.GetContent())
			}
		}
	})
}

func TestWaitingForAnAnswerEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("the reason")
	ends := map[string]struct {
		reason string
		end    func(f *fakeStream, cancelStream, cancelQuestion context.CancelCauseFunc)
		want   error
	}{
		"StreamCancelled": {
			reason: "the host has cancelled the call",
			end:    func(_ *fakeStream, cancelStream, _ context.CancelCauseFunc) { cancelStream(why) },
			want:   why,
		},
		"QuestionCancelled": {
			reason: "the deployer does not want to wait longer",
			end:    func(_ *fakeStream, _, cancelQuestion context.CancelCauseFunc) { cancelQuestion(why) },
			want:   why,
		},
		"HostStoppedTalking": {
			reason: "no answer will come any more",
			end:    func(f *fakeStream, _, _ context.CancelCauseFunc) { close(f.toPlug) },
			want:   io.EOF,
		},
	}
	questions := map[string]func(context.Context, *conversation) error{
		"Save": func(ctx context.Context, c *conversation) error { return c.saveProviderStatus(ctx, []byte("{}")) },
		"Resolve": func(ctx context.Context, c *conversation) error {
			_, err := c.resolveTarget(ctx, "other")
			return err
		},
	}
	for name, tc := range ends {
		for question, ask := range questions {
			t.Run(question+name, func(t *testing.T) {
				t.Parallel()
				streamCtx, cancelStream := context.WithCancelCause(t.Context())
				defer cancelStream(nil)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				f := newFakeStream(streamCtx)
				c := openConversation(f, &deployerv1.Start{ResolvesTargets: true})
				answered := make(chan error, 1)
				go func() { answered <- ask(ctx, c) }()
				<-f.toHost
				tc.end(f, cancelStream, cancel)
				if err := <-answered; !errors.Is(err, tc.want) {
					t.Errorf("%s: expected %v, but found %v", tc.reason, tc.want, err)
				}
				c.mu.Lock()
				if len(c.waiting) != 0 {
					t.Errorf("%s: the answer is still waited for", tc.reason)
				}
				c.mu.Unlock()
				if err := c.finish(&deployerv1.Result{}); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func TestStopIsHeard(t *testing.T) {
	t.Parallel()
	f := newFakeStream(t.Context())
	c := openConversation(f, &deployerv1.Start{ResolvesTargets: true})
	select {
	case <-c.stopping():
		t.Fatal("stopping before anybody asked")
	default:
	}
	stop := &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Stop{Stop: &deployerv1.Stop{}}}
	f.toPlug <- &deployerv1.HostMessage{} // of a later version of the protocol
	f.toPlug <- stop
	<-c.stopping()
	f.toPlug <- stop // once more does no harm
	if err := c.finish(&deployerv1.Result{}); err != nil {
		t.Fatal(err)
	}
}

// The protocol promises a heartbeat every ten seconds, and none after the result.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFakeStream(ctx)
		c := openConversation(f, &deployerv1.Start{ResolvesTargets: true})
		for range 3 {
			before := time.Now()
			if m := <-f.toHost; m.GetHeartbeat() == nil {
				t.Errorf("expected a heartbeat, but found %T", m.GetContent())
			}
			if gap := time.Since(before); gap > 10*time.Second {
				t.Errorf("a heartbeat came after %s", gap)
			}
		}
		if err := c.finish(&deployerv1.Result{}); err != nil {
			t.Fatal(err)
		}
		if m := <-f.toHost; m.GetResult() == nil {
			t.Errorf("expected the result, but found %T", m.GetContent())
		}
		time.Sleep(time.Minute)
		if len(f.toHost) > 0 {
			t.Errorf("something was said after the result")
		}
		cancel()
	})
}

// A call that waits until another one for its item has ended is alive, and says so.
func TestHeartbeatsWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newServer(&plugin{}, slog.New(slog.DiscardHandler))
		endTurn, err := s.turns.take(ctx, "item", "call")
		if err != nil {
			t.Fatal(err)
		}
		f := newFakeStream(ctx)
		called := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- s.operate("Reconcile", func(context.Context, *Request) (*Response, error) {
				close(called)
				return nil, nil
			}, f)
		}()
		f.toPlug <- &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Start{
			Start: &deployerv1.Start{DeployItem: []byte(`{"metadata":{"uid":"item"}}`)},
		}}
		time.Sleep(30 * time.Second)
		for range 3 {
			select {
			case m := <-f.toHost:
				if m.GetHeartbeat() == nil {
					t.Errorf("expected a heartbeat, but found %T", m.GetContent())
				}
			default:
				t.Error("expected a heartbeat every ten seconds, but the call says nothing")
			}
		}
		select {
		case <-called:
			t.Error("the deployer was called while another call works on the item")
		default:
		}
		endTurn()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		cancel()
	})
}
