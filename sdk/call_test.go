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
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
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
	return &Request{call: serving.OpenCall(f, &deployerv1.Start{ResolvesTargets: true, ResolvesRegistryCredentials: true})}
}

func finish(t rapid.TB, req *Request) {
	t.Helper()
	if err := req.call.Finish(&deployerv1.Result{}); err != nil {
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
	if err := save(ctx, req, 2); !errors.Is(err, serving.ErrOver) {
		t.Errorf("expected %v from a save after the result, but found %v", serving.ErrOver, err)
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
		end  func(f *fakeStream, cancelStream, cancelQuestion context.CancelCauseFunc)
		want error
	}{
		"call cancelled":     {func(_ *fakeStream, cancelStream, _ context.CancelCauseFunc) { cancelStream(why) }, why},
		"question cancelled": {func(_ *fakeStream, _, cancelQuestion context.CancelCauseFunc) { cancelQuestion(why) }, why},
		"host closed":        {func(f *fakeStream, _, _ context.CancelCauseFunc) { close(f.toPlug) }, io.EOF},
	} {
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
			t.Errorf("%s: expected %v, but found %v", name, tc.want, err)
		}
		finish(t, req)
	}
}

// A call sends a heartbeat every ten seconds, as the protocol promises, also while it waits until another one for its
// item has ended.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newServer(&plugin{deployer: deployerWith{}}, slog.New(slog.DiscardHandler))
		endOther, err := s.running.Begin(ctx, "item", "call")
		if err != nil {
			t.Fatal(err)
		}
		f := newFakeStream(ctx)
		called := false
		ended := make(chan error, 1)
		go func() {
			ended <- operate(s, "Reconcile", f, func(Deployer, context.Context, *Request) (*Response, error) {
				called = true
				return nil, nil
			})
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
	req := &Request{call: serving.OpenCall(f, &deployerv1.Start{})}
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

// An error names what was asked for, and nothing of what cannot be read, which may be a credential.
func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	const (
		document = `{"target":{"metadata":{"name":"a"},"spec":{"type":"t"}},"content":"c"}`
		target   = `[ERR_INTERNAL_PROBLEM]  : resolve Target "other": `
		secret   = `[ERR_INTERNAL_PROBLEM]  : resolve Secret "other": `
	)
	ofTarget := func(document string, err *deployerv1.Error) *deployerv1.HostMessage {
		answer := &deployerv1.ResolvedTarget{Sequence: 1, Target: []byte(document), Error: err}
		return &deployerv1.HostMessage{Content: &deployerv1.HostMessage_ResolvedTarget{ResolvedTarget: answer}}
	}
	ofSecret := func(found *deployerv1.RegistryCredentials, err *deployerv1.Error) *deployerv1.HostMessage {
		answer := &deployerv1.ResolvedRegistryCredentials{Sequence: 1, Credentials: found, Error: err}
		return &deployerv1.HostMessage{
			Content: &deployerv1.HostMessage_ResolvedRegistryCredentials{ResolvedRegistryCredentials: answer},
		}
	}
	refusal := &deployerv1.Error{Codes: []string{"ERR_CLEANUP"}, Operation: "Other", Reason: "None", Message: "gone"}
	for name, tc := range map[string]struct {
		answer *deployerv1.HostMessage
		want   string
	}{
		"Target":       {ofTarget(document, nil), "a t c"},
		"Target error": {ofTarget(document, refusal), "[ERR_CLEANUP] Other None: gone"},
		"empty error": {
			ofTarget("", &deployerv1.Error{}), `[] ResolveTarget : Target "other" cannot be used; the host does not say why`,
		},
		"no answer": {ofTarget("", nil), target + "the host has answered with neither a Target nor an error"},
		"no JSON":   {ofTarget("0123", nil), target + "decode target: it is not the JSON of a resolved Target"},
		"no Target": {ofTarget(`{"content":"0123"}`, nil), target + "decode target: the field target is missing"},

		"Secret": {
			ofSecret(&deployerv1.RegistryCredentials{Secret: "a", DockerConfig: []byte("{}")}, nil), "a {} ",
		},
		"Secret's problem": {ofSecret(&deployerv1.RegistryCredentials{Secret: "a", Error: "odd"}, nil), "a  odd"},
		"Secret's error":   {ofSecret(nil, refusal), "[ERR_CLEANUP] Other None: gone"},
		"no Secret":        {ofSecret(nil, nil), secret + "the host has answered with neither credentials nor an error"},
	} {
		f := newFakeStream(t.Context())
		req := f.open()
		go func() {
			<-f.toHost
			f.toPlug <- tc.answer
		}()
		var got string
		var err error
		if tc.answer.GetResolvedTarget() != nil {
			var found *Target
			if found, err = req.ResolveTarget(t.Context(), "other"); err == nil {
				got = fmt.Sprintf("%s %s %s", found.Name, found.Type, found.Content)
			}
		} else {
			var found *RegistryCredentials
			if found, err = req.ResolveRegistryCredentials(t.Context(), "ns", "other"); err == nil {
				got = fmt.Sprintf("%s %s %s", found.Secret, found.DockerConfig, found.Problem)
			}
		}
		if described := (*Error)(nil); errors.As(err, &described) {
			got = fmt.Sprintf("%s %s %s: %v", Codes(err), described.Operation, described.Reason, err)
		}
		if got != tc.want {
			t.Errorf("%s: expected %q, but found %q", name, tc.want, got)
		}
	}
}
