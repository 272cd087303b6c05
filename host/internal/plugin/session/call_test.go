package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// unknown has a field of this number that nothing knows.
func unknown(number protowire.Number, value []byte) *deployerv1.PluginMessage {
	m := &deployerv1.PluginMessage{}
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value))
	return m
}

// errRefusal is an error of gRPC with a long text.
var errRefusal = status.Error(codes.FailedPrecondition, strings.Repeat("ü", hostside.MaxMessage))

// Rule (protocol.md#rules): The error about a text outside UTF-8, of a plugin without the sdk, names the field.
func TestCallsThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	// As of a library that does not check its texts: message is field 2 of Progress, which is field 1.
	latin1 := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "Gr\xfcn")
	for name, test := range map[string]struct {
		does func(wire) error
		want string
	}{
		"no result":         {says(), "without a result"},
		"no outcome":        {says(result(&deployerv1.Result{})), "neither succeeded, failed nor in progress"},
		"an error of gRPC":  {func(wire) error { return errRefusal }, "üü"},
		"65 MiB":            {says(succeeded(make([]byte, 65<<20))), "larger than max"},
		"text but no UTF-8": {says(unknown(1, latin1)), "pergola.deployer.v1.Progress.message"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := connect(t, &peer{reconcile: test.does}).
				Call(t.Context(), Reconcile, fullCall(), time.Minute, &observer{})
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("expected ErrProtocol with %q, but found: %.1000v", test.want, err)
			}
			if text := err.Error(); len(text) > hostside.MaxMessage+100 || !utf8.ValidString(text) {
				t.Errorf("expected a bounded text of valid UTF-8, but found %d bytes", len(text))
			}
		})
	}
}

// The first result counts. A plugin that goes on with the call is cancelled, so that the next one does not meet it.
func TestResult(t *testing.T) {
	t.Parallel()
	goesOn := func(call wire) error {
		err := call.Send(succeeded([]byte("{}")))
		<-call.Context().Done()
		return err
	}
	long := progress(strings.Repeat("ü", 5<<19), strings.Repeat("€", 5<<18))
	failure := result(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: wireFailure()}})
	for name, test := range map[string]struct {
		does   func(wire) error
		bytes  int // of the exports
		logged bool
	}{
		"after unknown messages":  {does: says(&deployerv1.PluginMessage{}, unknown(99, nil), succeeded(nil))},
		"after long texts":        {does: says(long, succeeded(nil))},
		"without acknowledgement": {does: says(saved(1), succeeded(nil))},
		"a large one":             {does: says(succeeded(make([]byte, 40<<20))), bytes: 40 << 20},
		"and another one":         {does: says(succeeded([]byte("{}")), failure), bytes: 2, logged: true},
		"and no end":              {does: goesOn, bytes: 2, logged: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t, &peer{reconcile: test.does})
			got, err := s.Call(t.Context(), Reconcile, fullCall(), time.Minute, &observer{
				save: func(context.Context, []byte) error { return nil },
				progress: func(step, message string) {
					if len(step)+len(message) > 3*hostside.MaxMessage || !utf8.ValidString(step) || !utf8.ValidString(message) {
						t.Errorf("expected bounded texts of valid UTF-8, but found %d and %d bytes", len(step), len(message))
					}
				},
			})
			if err != nil || got.Succeeded == nil || len(got.Succeeded.Exports) != test.bytes {
				t.Errorf("expected success with %d bytes, but found %.1000v (%v)", test.bytes, got, err)
			}
			if goesOn := s.log.With("plugin goes on with a call after its result"); len(goesOn) > 0 != test.logged {
				t.Errorf("found the log %v", goesOn)
			}
		})
	}
}

// A call ends with its context: by the plugin itself, which is asked to, or after a grace by the host.
func TestEndOfCall(t *testing.T) {
	t.Parallel()
	errLost := errors.New("the lock is lost")
	stops := func(call wire) error {
		if m, err := call.Recv(); err != nil || m.GetStop().GetReason() != errLost.Error() {
			return errors.Join(err, errors.New("expected to be asked to stop"))
		}
		return call.Send(succeeded(nil))
	}
	cancelled := make(chan struct{})
	waits := func(call wire) error {
		<-call.Context().Done()
		close(cancelled)
		return nil
	}
	hangs := func(wire) error {
		<-t.Context().Done()
		return nil
	}
	for name, test := range map[string]struct {
		does  func(wire) error // after it has begun
		grace time.Duration
		late  bool // the deadline ends it instead
		want  error
	}{
		"asked to stop":  {does: stops, grace: time.Hour},
		"cancelled":      {does: waits, want: errLost},
		"left to itself": {does: hangs, want: errLost},
		"deadline":       {does: hangs, grace: time.Hour, late: true, want: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := connect(t, &peer{reconcile: func(call wire) error {
				if err := call.Send(progress("it", "has begun")); err != nil {
					return err
				}
				return test.does(call)
			}})
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c := fullCall()
			if test.late {
				c.Deadline = time.Now().Add(300 * time.Millisecond)
			}
			out, err := s.Call(ctx, Reconcile, c, test.grace, &observer{progress: func(string, string) {
				if !test.late {
					cancel(errLost)
				}
			}})
			if !errors.Is(err, test.want) || (err == nil) != (out != nil) {
				t.Errorf("expected error %v, but found: %v (%v)", test.want, out, err)
			}
			if name == "cancelled" {
				<-cancelled
			}
		})
	}
}

// What the host has no operation for, or the plugin, is no call.
func TestOperations(t *testing.T) {
	t.Parallel()
	s := connect(t, &peer{})
	for op, want := range map[Operation]error{Abort: ErrProtocol, ForceReconcile: ErrProtocol, "Dance": nil} {
		_, err := s.Call(t.Context(), op, fullCall(), time.Minute, &observer{})
		if err == nil || !errors.Is(err, want) && want != nil || !strings.Contains(err.Error(), string(op)) {
			t.Errorf("%s: expected an error with its name, but found: %v", op, err)
		}
	}
}

// The end of the process ends a call, also one that waits for the host.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := connect(t, &peer{reconcile: func(call wire) error {
		err := call.Send(saved(1))
		<-call.Context().Done()
		return err
	}})
	call := func(save func(context.Context, []byte) error) error {
		_, err := s.Call(t.Context(), Reconcile, fullCall(), time.Minute, &observer{save: save})
		return err
	}
	err := call(func(context.Context, []byte) error {
		s.crash()
		<-s.run.Ended
		return nil
	})
	if !errors.Is(err, ErrCrashed) || errors.Is(err, ErrBeside) {
		t.Errorf("expected ErrCrashed alone, but found: %v", err)
	}
	if err := call(nil); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected that the next call is not to blame, but found: %v", err)
	}
}

// What is said here of Render goes for each question with one answer.
func TestRender(t *testing.T) {
	t.Parallel()
	type renders = func(context.Context) (*deployerv1.RenderResponse, error)
	var now atomic.Pointer[renders] // a call that is over may still run
	s := connect(t, &peer{render: func(ctx context.Context) (*deployerv1.RenderResponse, error) {
		return (*now.Load())(ctx)
	}})
	child := func(object []byte) renders {
		return func(context.Context) (*deployerv1.RenderResponse, error) {
			return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Children{
				Children: &deployerv1.Children{Children: []*deployerv1.Child{{Name: "a", Object: object}}}}}, nil
		}
	}
	hangs := func(once func()) renders {
		return func(ctx context.Context) (*deployerv1.RenderResponse, error) {
			once()
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	refuses := func(context.Context) (*deployerv1.RenderResponse, error) { return nil, errRefusal }
	says := func(out *deployerv1.RenderResponse) renders {
		return func(context.Context) (*deployerv1.RenderResponse, error) { return out, nil }
	}
	wrong := &deployerv1.RenderResponse_Failed{Failed: wireFailure("wrong")}
	object := []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)
	ctx, interrupt := context.WithCancelCause(t.Context())
	for _, test := range []struct {
		reason string
		does   renders
		want   *Rendered
		err    error
		says   string
	}{
		{"children", child(object), &Rendered{Children: []sdk.Child{{Name: "a", Object: object}}}, nil, ""},
		{"a failure", says(&deployerv1.RenderResponse{Outcome: wrong}),
			&Rendered{Errors: []hostside.Error{{Operation: "Do", Reason: "Wrong", Message: "wrong"}}}, nil, ""},
		{"no outcome", says(&deployerv1.RenderResponse{}), nil, ErrProtocol, "neither children nor failed"},
		{"a huge answer", child(make([]byte, 65<<20)), nil, ErrProtocol, "larger than max"},
		{"no object", child([]byte("\xff")), nil, ErrProtocol, `its desired object "a" is no JSON object`},
		{"an error of gRPC", refuses, nil, ErrProtocol, "üü"},
		{"the deadline", hangs(func() {}), nil, context.DeadlineExceeded, ""},
		{"the end of the context", hangs(func() { interrupt(ErrInterrupted) }), nil, ErrInterrupted, "call stopped"},
		{"the end of the process", hangs(func() { go s.crash() }), nil, ErrCrashed, ""},
	} {
		now.Store(&test.does)
		c, callCtx := fullCall(), t.Context()
		switch {
		case errors.Is(test.err, context.DeadlineExceeded):
			c.Deadline = time.Now().Add(100 * time.Millisecond)
		case errors.Is(test.err, ErrInterrupted):
			callCtx = ctx
		}
		got, err := s.Render(callCtx, c)
		if !errors.Is(err, test.err) || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: expected %v with %q, but found: %v", test.reason, test.err, test.says, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: rendered (-want +got):\n%s", test.reason, diff)
		}
		if s.Calls() > 0 {
			t.Errorf("%s: the call is counted after its end", test.reason)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	var answer *deployerv1.DiffResponse
	s := connect(t, &peer{diff: func(start *deployerv1.Start) *deployerv1.DiffResponse {
		if start.GetResolvesTargets() || len(start.GetTarget()) == 0 {
			t.Errorf("expected the Target, and no answers to questions, but found %v", start)
		}
		return answer
	}})
	changes := func(all ...*deployerv1.Change) *deployerv1.DiffResponse {
		return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: &deployerv1.Changes{Changes: all}}}
	}
	state := []byte(`{"n":9007199254740993}`)
	for _, tc := range []struct {
		reason string
		answer *deployerv1.DiffResponse
		want   *Diff
		says   string // of ErrProtocol
	}{
		{"states stay as they are", changes(
			&deployerv1.Change{Object: "ConfigMap a/b", Action: "update", Before: []byte("{}"), After: state},
			&deployerv1.Change{Object: "Secret a/c", Action: "fail", Note: "it is immutable"},
		), &Diff{Changes: []sdk.Change{
			{Object: "ConfigMap a/b", Action: sdk.ActionUpdate, Before: []byte("{}"), After: state},
			{Object: "Secret a/c", Action: sdk.ActionFail, Note: "it is immutable"},
		}}, ""},
		{"a job may change nothing", changes(), &Diff{Changes: []sdk.Change{}}, ""},
		{"a failure", &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Failed{Failed: wireFailure("wrong")}},
			&Diff{Errors: []hostside.Error{{Operation: "Do", Reason: "Wrong", Message: "wrong"}}}, ""},
		{"no outcome", &deployerv1.DiffResponse{}, nil, "neither changes nor failed"},
		{"no object", changes(&deployerv1.Change{Object: "a", Action: "create", After: []byte("\xff")}), nil,
			`its change of "a": the state after it: expected a JSON object`},
	} {
		answer = tc.answer
		got, err := s.Diff(t.Context(), fullCall())
		if diff := cmp.Diff(tc.want, got); diff != "" || errors.Is(err, ErrProtocol) != (tc.says != "") ||
			err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, diff (-want +got):\n%s", tc.reason, err, diff)
		}
	}
}

func TestRunHooks(t *testing.T) {
	t.Parallel()
	var outcomes []*deployerv1.HookOutcome
	var refusal error
	s := connect(t, &peer{hooks: func() ([]*deployerv1.HookOutcome, error) { return outcomes, refusal }})
	none := &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}}
	fails := func(size int) *deployerv1.HookOutcome {
		return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Error{
			Error: &deployerv1.Error{Reason: "Wrong", Message: strings.Repeat("x", size)}}}
	}
	past := &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Result{
		Result: &deployerv1.HookResult{RequeueAfter: durationpb.New(-time.Hour)}}}
	cut := strings.Repeat("x", hostside.MaxMessage) + " … (cut)"
	for _, test := range []struct {
		reason   string
		outcomes []*deployerv1.HookOutcome
		refusal  error
		want     []hostside.HookOutcome
		says     string // of ErrProtocol
	}{
		{"a requeue in the past is none", []*deployerv1.HookOutcome{none, past}, nil,
			[]hostside.HookOutcome{{}, {Result: &hook.Result{}}}, ""},
		{"a long message is cut", []*deployerv1.HookOutcome{fails(1 << 19)}, nil,
			[]hostside.HookOutcome{{Error: &hostside.Error{Reason: "Wrong", Message: cut}}}, ""},
		{"no outcome", []*deployerv1.HookOutcome{none, {}}, nil, nil,
			"outcome 1 of its hooks is neither none, result nor error"},
		{"too many", slices.Repeat([]*deployerv1.HookOutcome{none}, 101), nil, nil, "101 hook outcomes"},
		{"a huge answer", []*deployerv1.HookOutcome{fails(1 << 20)}, nil, nil, "larger than max"},
		{"an error of gRPC", nil, errRefusal, nil, "üü"},
	} {
		outcomes, refusal = test.outcomes, test.refusal
		got, err := s.RunHooks(t.Context(), hostside.HookCall{Type: hook.End, DeployItem: fullCall().DeployItem})
		if diff := cmp.Diff(test.want, got); diff != "" || errors.Is(err, ErrProtocol) != (test.says != "") {
			t.Errorf("%s: error %v, outcomes (-want +got):\n%s", test.reason, err, diff)
		}
		if err != nil && (!strings.Contains(err.Error(), test.says) || len(err.Error()) > 2*hostside.MaxMessage) {
			t.Errorf("%s: expected a bounded text with %q, but found %.1000v", test.reason, test.says, err)
		}
	}
}

// A plugin without its access to the host cluster is not called, and the error has the reason.
func TestHostClusterUnavailable(t *testing.T) {
	t.Parallel()
	s := connect(t, &peer{})
	s.Serve(&hostside.Info{}, Grants{HostCluster: func(context.Context) (*sdk.HostCluster, error) {
		return nil, errors.New("there is no ServiceAccount")
	}})
	want := hostside.Error{Operation: "AccessHostCluster", Reason: "HostClusterUnavailable",
		Message: "there is no ServiceAccount"}
	for what, call := range map[string]func(context.Context) error{
		"Call": func(ctx context.Context) error {
			_, err := s.Call(ctx, Reconcile, fullCall(), time.Minute, &observer{})
			return err
		},
		"Render":   func(ctx context.Context) error { _, err := s.Render(ctx, fullCall()); return err },
		"Holdings": func(ctx context.Context) error { _, err := s.Holdings(ctx); return err },
		"Collect":  func(ctx context.Context) error { return s.Collect(ctx, nil) },
	} {
		var got hostside.Error
		if err := call(t.Context()); !errors.As(err, &got) {
			t.Errorf("%s: expected an Error, but found %v", what, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(ErrInterrupted)
		if err := call(ctx); !errors.Is(err, ErrInterrupted) {
			t.Errorf("%s: expected the cause of the end of the call, but found %v", what, err)
		}
	}
}
