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

// questions are the kinds of questions. Each is asked with a number, and returns the text of the answer.
var questions = []func(ctx context.Context, req *Request, number int) string{
	func(ctx context.Context, req *Request, number int) string { return fmt.Sprint(save(ctx, req, number)) },
	func(ctx context.Context, req *Request, number int) string {
		target, err := req.ResolveTarget(ctx, fmt.Sprint(number))
		if err != nil {
			return err.Error()
		}
		return string(target.Content)
	},
	func(ctx context.Context, req *Request, number int) string {
		found, err := req.ResolveRegistryCredentials(ctx, "ns", fmt.Sprint(number))
		if err != nil {
			return err.Error()
		}
		return found.Secret
	},
}

// read returns the number of a question, its sequence, and what answers it with a text.
func read(t *rapid.T, m *deployerv1.PluginMessage) (number int, sequence uint64, answer func(text string) *deployerv1.HostMessage) {
	asked := ""
	switch content := m.GetContent().(type) {
	case *deployerv1.PluginMessage_ProviderStatus:
		asked, sequence = string(content.ProviderStatus.GetDocument()), content.ProviderStatus.GetSequence()
		asked = strings.TrimSuffix(strings.TrimPrefix(asked, `{"apiVersion":"v1","kind":"`), `"}`)
		answer = func(text string) *deployerv1.HostMessage { return acknowledgement(sequence, text) }
	case *deployerv1.PluginMessage_ResolveTarget:
		asked, sequence = content.ResolveTarget.GetName(), content.ResolveTarget.GetSequence()
		answer = func(text string) *deployerv1.HostMessage {
			target := fmt.Appendf(nil, `{"target":{},"content":%q}`, text)
			return resolvedTarget(&deployerv1.ResolvedTarget{Sequence: sequence, Target: target})
		}
	case *deployerv1.PluginMessage_ResolveRegistryCredentials:
		asked, sequence = content.ResolveRegistryCredentials.GetName(), content.ResolveRegistryCredentials.GetSequence()
		answer = func(text string) *deployerv1.HostMessage {
			return resolvedCredentials(&deployerv1.ResolvedRegistryCredentials{
				Sequence: sequence, Credentials: &deployerv1.RegistryCredentials{Secret: text},
			})
		}
	}
	if _, err := fmt.Sscan(asked, &number); err != nil {
		t.Fatalf("%v: %v", m, err)
	}
	return number, sequence, answer
}

// Questions of all kinds are asked at once, and the host answers in any order: each gets its own answer.
func TestAnswersReachTheirQuestions(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		kinds := rapid.SliceOfN(rapid.IntRange(0, len(questions)-1), 1, 20).Draw(rt, "kinds")
		numbers := make([]int, len(kinds))
		for i := range numbers {
			numbers[i] = i
		}
		order := rapid.Permutation(numbers).Draw(rt, "order")

		f := newFakeStream(ctx)
		req := f.open()
		answers := make([]string, len(kinds))
		var asking sync.WaitGroup
		for i, kind := range kinds {
			asking.Go(func() { answers[i] = questions[kind](ctx, req, i) })
		}
		answer := make([]func(text string) *deployerv1.HostMessage, len(kinds)) // by question
		last := uint64(0)
		for range kinds {
			i, sequence, reply := read(rt, <-f.toHost)
			if answer[i] = reply; sequence <= last {
				rt.Errorf("sequence %d came after %d", sequence, last)
			}
			last = sequence
		}
		f.toPlug <- acknowledgement(last+1, "nobody waits for this one")
		for _, i := range order {
			f.toPlug <- answer[i](fmt.Sprintf("answer %d", i))
			f.toPlug <- answer[i]("a second answer does not count")
		}
		asking.Wait()
		for i, answer := range answers {
			if !strings.HasSuffix(answer, fmt.Sprintf("answer %d", i)) {
				rt.Errorf("question %d of kind %d got %q", i, kinds[i], answer)
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
	refusal := &deployerv1.Error{Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Other", Reason: "None", Message: "gone"}
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
			answer: target(`{"target":{"metadata":{"name":"a","labels":{"b":"c"}},"spec":{"type":"t"}},"content":"` + secret + `"}`),
			want:   &Target{Name: "a", Type: "t", Labels: map[string]string{"b": "c"}, Content: []byte(secret)},
		},
		"Error": {
			reason:   "the host has said everything",
			answer:   resolvedTarget(&deployerv1.ResolvedTarget{Sequence: 1, Error: refusal}),
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Other", Reason: "None"},
			wantText: "gone",
		},
		"EmptyError": {
			reason:  "an error without a text would help nobody",
			answer:  resolvedTarget(&deployerv1.ResolvedTarget{Sequence: 1, Error: &deployerv1.Error{}}),
			wantErr: Error{Operation: "ResolveTarget"}, wantText: `"other"`,
		},
		"Nothing":   {reason: "there is no error either", answer: target(""), wantErr: Error{Codes: internal}, wantText: `"other"`},
		"NoJSON":    {reason: "it may be a credential", answer: target(secret), wantErr: Error{Codes: internal}, wantText: `"other"`},
		"WrongType": {reason: "a decoder would name the value", answer: target(`{"target":"` + secret + `"}`), wantErr: Error{Codes: internal}, wantText: `"other"`},
		"NoTarget":  {reason: "content alone is no Target", answer: target(`{"content":"` + secret + `"}`), wantErr: Error{Codes: internal}, wantText: `"other"`},
		"Problem": {
			reason: "the deployer judges it",
			answer: resolvedCredentials(&deployerv1.ResolvedRegistryCredentials{
				Sequence: 1, Credentials: &deployerv1.RegistryCredentials{Secret: "other", DockerConfig: []byte("{}"), Error: "odd"},
			}),
			want: &RegistryCredentials{Secret: "other", DockerConfig: []byte("{}"), Problem: "odd"},
		},
		"SecretError": {
			reason:   "the host has said everything",
			answer:   resolvedCredentials(&deployerv1.ResolvedRegistryCredentials{Sequence: 1, Error: refusal}),
			wantErr:  Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Other", Reason: "None"},
			wantText: "gone",
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
				<-f.toHost
				f.toPlug <- tc.answer
			}()
			var got any
			var err error
			if tc.answer.GetResolvedTarget() != nil {
				if target, targetErr := req.ResolveTarget(t.Context(), "other"); targetErr != nil {
					err = targetErr
				} else {
					got = target
				}
			} else if found, secretErr := req.ResolveRegistryCredentials(t.Context(), "ns", "other"); secretErr != nil {
				err = secretErr
			} else {
				got = found
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if err == nil && tc.wantText == "" {
				return
			}
			var found *Error
			if !errors.As(err, &found) {
				t.Fatalf("%s: expected an *Error, but found %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.wantErr, Error{Codes: found.Codes, Operation: found.Operation, Reason: found.Reason}); diff != "" {
				t.Errorf("%s: error (-want +got):\n%s", tc.reason, diff)
			}
			if !strings.Contains(err.Error(), tc.wantText) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: expected a message with %s and without the content, but found: %v", tc.reason, tc.wantText, err)
			}
		})
	}
}
