package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"pgregory.net/rapid"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fakeStream is the stream of a call, and the host's end of it.
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

// open starts a call of a host that answers all questions, and returns its request.
func (f *fakeStream) open() *Request {
	return &Request{call: openCall(f, &deployerv1.Start{ResolvesTargets: true, ResolvesRegistryCredentials: true})}
}

func finish(t rapid.TB, req *Request) {
	t.Helper()
	if err := req.call.finish(&deployerv1.Result{}); err != nil {
		t.Fatal(err)
	}
}

// numbered is a provider status with a number.
type numbered struct {
	APIVersion string `json:"apiVersion"`
	Kind       int    `json:"kind,string"`
}

func save(ctx context.Context, req *Request, number int) error {
	return req.SaveProviderStatus(ctx, numbered{APIVersion: "v1", Kind: number})
}

func acknowledgement(sequence uint64, refused string) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{
		Acknowledgement: &deployerv1.Acknowledgement{Sequence: sequence, Error: refused},
	}}
}

func resolvedTarget(in *deployerv1.ResolvedTarget) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{ResolvedTarget: in}}
}

func resolvedCredentials(in *deployerv1.ResolvedRegistryCredentials) *deployerv1.HostMessage {
	return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{
		ResolvedRegistryCredentials: in,
	}}
}

// Several goroutines save at once, and the host answers in any order: each gets the answer to its own document.
func TestAnswersReachTheirQuestions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		numbers := make([]int, rapid.IntRange(1, 20).Draw(rt, "how many"))
		for i := range numbers {
			numbers[i] = i
		}
		order := rapid.Permutation(numbers).Draw(rt, "order")

		f := newFakeStream(ctx)
		req := f.open()
		answers := make([]error, len(numbers))
		var asking sync.WaitGroup
		for i := range numbers {
			asking.Go(func() { answers[i] = save(ctx, req, i) })
		}
		sequences := make([]uint64, len(numbers))
		for last := range uint64(len(numbers)) {
			status := (<-f.toHost).GetProviderStatus()
			if status.GetSequence() != last+1 {
				rt.Errorf("sequence %d came after %d", status.GetSequence(), last)
			}
			var number numbered
			if err := json.Unmarshal(status.GetDocument(), &number); err != nil {
				rt.Fatal(err)
			}
			sequences[number.Kind] = status.GetSequence()
		}
		f.toPlug <- acknowledgement(uint64(len(numbers)+1), "nobody waits for this one")
		for _, i := range order {
			f.toPlug <- acknowledgement(sequences[i], fmt.Sprintf("answer %d", i))
			f.toPlug <- acknowledgement(sequences[i], "a second answer does not count")
		}
		asking.Wait()
		for i, err := range answers {
			if want := fmt.Sprintf("save provider status: answer %d", i); err == nil || err.Error() != want {
				rt.Errorf("expected %q, but found %v", want, err)
			}
		}
		finish(rt, req)
	})
}

// Goroutines that a deployer left behind go on sending while the result is sent: nothing of it comes after the result.
func TestNothingFollowsTheResult(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	f := newFakeStream(ctx)
	req := f.open()
	started, heard := make(chan struct{}), make(chan []*deployerv1.PluginMessage)
	go func() {
		var all []*deployerv1.PluginMessage
		for m := range f.toHost {
			if all = append(all, m); len(all) == 20 {
				close(started)
			}
		}
		heard <- all
	}()
	var sending sync.WaitGroup
	for range 4 {
		sending.Go(func() {
			for ctx.Err() == nil {
				req.Progress("late", "still sending")
				req.Warning("Late", "still sending")
			}
		})
		sending.Go(func() { _ = save(ctx, req, 1) })
	}
	<-started
	finish(t, req)
	if err := save(ctx, req, 2); !errors.Is(err, errOver) {
		t.Errorf("expected %v from a save after the result, but found %v", errOver, err)
	}
	cancel()
	sending.Wait()
	close(f.toHost)
	all := <-heard
	for i, m := range all {
		if isLast := i == len(all)-1; isLast != (m.GetResult() != nil) {
			t.Errorf("message %d of %d is a %T", i+1, len(all), m.GetContent())
		}
	}
}

func TestWaitingForAnAnswerEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("the reason")
	for name, tc := range map[string]struct {
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
		"HostClosed": {
			reason: "no answer will come any more",
			end:    func(f *fakeStream, _, _ context.CancelCauseFunc) { close(f.toPlug) },
			want:   io.EOF,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamCtx, cancelStream := context.WithCancelCause(t.Context())
			defer cancelStream(nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			f := newFakeStream(streamCtx)
			req := f.open()
			answered := make(chan error, 1)
			go func() { answered <- save(ctx, req, 1) }()
			<-f.toHost
			tc.end(f, cancelStream, cancel)
			if err := <-answered; !errors.Is(err, tc.want) {
				t.Errorf("%s: expected %v, but found %v", tc.reason, tc.want, err)
			}
			if len(req.call.waiting) != 0 {
				t.Errorf("%s: the answer is still waited for", tc.reason)
			}
			finish(t, req)
		})
	}
}

func TestStopIsReceived(t *testing.T) {
	t.Parallel()
	f := newFakeStream(t.Context())
	req := f.open()
	select {
	case <-req.Stopping():
		t.Fatal("stopping before anybody asked")
	default:
	}
	stop := &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Stop{Stop: &deployerv1.Stop{}}}
	f.toPlug <- &deployerv1.HostMessage{} // of a later version of the protocol
	f.toPlug <- stop
	<-req.Stopping()
	f.toPlug <- stop // once more does no harm
	finish(t, req)
}

// The protocol promises a heartbeat every ten seconds, and none after the result.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFakeStream(ctx)
		req := f.open()
		for range 3 {
			before := time.Now()
			if m := <-f.toHost; m.GetHeartbeat() == nil {
				t.Errorf("expected a heartbeat, but found %T", m.GetContent())
			}
			if gap := time.Since(before); gap > 10*time.Second {
				t.Errorf("a heartbeat came after %s", gap)
			}
		}
		finish(t, req)
		if m := <-f.toHost; m.GetResult() == nil {
			t.Errorf("expected the result, but found %T", m.GetContent())
		}
		time.Sleep(time.Minute)
		if len(f.toHost) > 0 {
			t.Errorf("something was sent after the result")
		}
		cancel()
	})
}

// A call that waits until another one for its item has ended sends heartbeats.
func TestHeartbeatsWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newServer(&plugin{}, slog.New(slog.DiscardHandler))
		endOther, err := s.running.begin(ctx, "item", "call")
		if err != nil {
			t.Fatal(err)
		}
		f := newFakeStream(ctx)
		called := false
		ended := make(chan error, 1)
		go func() {
			ended <- s.operate("Reconcile", func(context.Context, *Request) (*Response, error) {
				called = true
				return nil, nil
			}, f)
		}()
		f.toPlug <- &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Start{
			Start: &deployerv1.Start{DeployItem: []byte(`{"metadata":{"uid":"item"}}`)},
		}}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(f.toHost) < 3 || called {
			t.Errorf("expected heartbeats and no call while another one works on the item, but found %d, %t",
				len(f.toHost), called)
		}
		endOther()
		if err := <-ended; err != nil || !called {
			t.Errorf("called: %t, error %v", called, err)
		}
		cancel()
	})
}

// A host that does not know the question would never answer it.
func TestOlderHostIsNotAsked(t *testing.T) {
	t.Parallel()
	f := newFakeStream(t.Context())
	req := &Request{call: openCall(f, &deployerv1.Start{})}
	_, targetErr := req.ResolveTarget(t.Context(), "other")
	_, secretErr := req.ResolveRegistryCredentials(t.Context(), "ns", "other")
	for _, err := range []error{targetErr, secretErr} {
		var found *Error
		if !errors.As(err, &found) || found.Reason != ReasonHostTooOld || !strings.Contains(err.Error(), "update the host") {
			t.Errorf("expected the reason %s and what to do, but found %v", ReasonHostTooOld, err)
		}
		if diff := cmp.Diff([]v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Codes(err)); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
	}
	finish(t, req)
	if m := <-f.toHost; m.GetResult() == nil {
		t.Errorf("the host was asked: %v", m)
	}
}

func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	const secret = "0123456789"
	internal := []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}
	target := func(document string) *deployerv1.HostMessage {
		return resolvedTarget(&deployerv1.ResolvedTarget{Sequence: 1, Target: []byte(document)})
	}
	refusal := &deployerv1.Error{Codes: []string{"ERR_CLEANUP"}, Operation: "Other", Reason: "None", Message: "gone"}
	for name, tc := range map[string]struct {
		reason string
		answer *deployerv1.HostMessage
		want   any
		// wantErr is what the error says; the zero one for none.
		wantErr Error
		// wantText is part of its message.
		wantText string
	}{
		"Target": {
			reason: "it is as that of the item",
			answer: target(`{"target":{"metadata":{"name":"a","labels":{"b":"c"}},"spec":{"type":"t"}},` +
				`"content":"` + secret + `"}`),
			want: &Target{Name: "a", Type: "t", Labels: map[string]string{"b": "c"}, Content: []byte(secret)},
		},
		"Error": {
			reason: "the host has said everything",
			answer: resolvedTarget(&deployerv1.ResolvedTarget{Sequence: 1, Error: refusal}),
			wantErr: Error{
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorCleanup}, Operation: "Other", Reason: "None",
			},
			wantText: "gone",
		},
		"EmptyError": {
			reason:  "an error without a text would help nobody",
			answer:  resolvedTarget(&deployerv1.ResolvedTarget{Sequence: 1, Error: &deployerv1.Error{}}),
			wantErr: Error{Operation: "ResolveTarget"}, wantText: `"other"`,
		},
		"Nothing": {
			reason: "there is no error either", answer: target(""), wantErr: Error{Codes: internal},
			wantText: `"other"`,
		},
		"NoJSON": {
			reason: "it may be a credential", answer: target(secret), wantErr: Error{Codes: internal},
			wantText: `"other"`,
		},
		"NoTarget": {
			reason: "content alone is no Target", answer: target(`{"content":"` + secret + `"}`),
			wantErr: Error{Codes: internal}, wantText: `"other"`,
		},
		"Problem": {
			reason: "the deployer judges it",
			answer: resolvedCredentials(&deployerv1.ResolvedRegistryCredentials{
				Sequence:    1,
				Credentials: &deployerv1.RegistryCredentials{Secret: "other", DockerConfig: []byte("{}"), Error: "odd"},
			}),
			want: &RegistryCredentials{Secret: "other", DockerConfig: []byte("{}"), Problem: "odd"},
		},
		"NoSecret": {
			reason:  "there is no error either",
			answer:  resolvedCredentials(&deployerv1.ResolvedRegistryCredentials{Sequence: 1}),
			wantErr: Error{Codes: internal}, wantText: `"other"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeStream(t.Context())
			req := f.open()
			go func() {
				question := <-f.toHost
				target, secret := question.GetResolveTarget(), question.GetResolveRegistryCredentials()
				if target.GetName() != "other" && secret.GetNamespace()+"/"+secret.GetName() != "ns/other" {
					t.Errorf("expected a question for other, but found %v", question)
				}
				f.toPlug <- tc.answer
			}()
			var answered any
			var err error
			if tc.answer.GetResolvedTarget() != nil {
				if target, targetErr := req.ResolveTarget(t.Context(), "other"); targetErr != nil {
					err = targetErr
				} else {
					answered = target
				}
			} else if found, secretErr := req.ResolveRegistryCredentials(t.Context(), "ns", "other"); secretErr != nil {
				err = secretErr
			} else {
				answered = found
			}
			if diff := cmp.Diff(tc.want, answered); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if err == nil && tc.wantText == "" {
				return
			}
			var found *Error
			if !errors.As(err, &found) {
				t.Fatalf("%s: expected an *Error, but found %v", tc.reason, err)
			}
			got := Error{Codes: found.Codes, Operation: found.Operation, Reason: found.Reason}
			if diff := cmp.Diff(tc.wantErr, got); diff != "" {
				t.Errorf("%s: error (-want +got):\n%s", tc.reason, diff)
			}
			if !strings.Contains(err.Error(), tc.wantText) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: expected a message with %s and without the content, but found: %v", tc.reason, tc.wantText, err)
			}
		})
	}
}
