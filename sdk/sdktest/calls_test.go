package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReconcileTellsWhatWasSaid(t *testing.T) {
	t.Parallel()
	plugin := New(t, greeter{}, greeterOptions()...)
	status := json.RawMessage(`{"apiVersion":"example.org/v1","kind":"GreeterStatus","text":"item"}`)
	want := &Result{
		InProgress:     &sdk.InProgress{WaitingFor: "an answer to the greeting", PollAfter: 1},
		ProviderStatus: status,
		Messages: []Message{
			{Progress: &Progress{Step: "greet", Message: "clearing the throat"}},
			{ProviderStatus: status},
			{Event: &Event{Reason: "Greeted", Message: "said good morning"}},
		},
	}
	if diff := cmp.Diff(want, plugin.Reconcile(t.Context(), greeterCall())); diff != "" {
		t.Errorf("first call (-want +got):\n%s", diff)
	}
	want = &Result{Succeeded: &Succeeded{Exports: map[string]any{"greeting": "good morning"}}, ProviderStatus: status}
	if diff := cmp.Diff(want, plugin.ReconcileUntilDone(t.Context(), greeterCall())); diff != "" {
		t.Errorf("until done (-want +got):\n%s", diff)
	}
}

// A forced job goes on after an error that says when to try again, and is not forced yet.
func TestLaterIsNoEnd(t *testing.T) {
	t.Parallel()
	calls := 0
	plugin := New(t, forcer{greeter{}, func() error {
		if calls++; calls == 1 {
			return &sdk.Error{RetryAfter: time.Millisecond, Err: errors.New("busy")}
		}
		return sdk.ConfigurationError("Wrong", "no")
	}}, greeterOptions()...)
	result := plugin.ForceReconcileUntilDone(t.Context(), greeterCall())
	if calls != 2 || result.Failed == nil || result.Failed.Errors[0].Reason != "Wrong" {
		t.Errorf("expected the second call to end the job, but after %d it %s", calls, result)
	}
}

type forcer struct {
	greeter
	force func() error
}

func (f forcer) ForceReconcile(context.Context, *sdk.Request) (*sdk.Response, error) {
	return nil, f.force()
}

func TestFailedSaveStopsTheDeployer(t *testing.T) {
	t.Parallel()
	call := greeterCall()
	call.OnSave = func(json.RawMessage) error { return errors.New("conflict") }
	result := New(t, greeter{}, greeterOptions()...).Reconcile(t.Context(), call)
	if result.Failed == nil || !strings.Contains(result.Failed.Error(), "conflict") {
		t.Errorf("expected a failure that names the conflict, but found: %s", result)
	}
	if result.ProviderStatus != nil {
		t.Errorf("a provider status that was not saved is there: %s", result.ProviderStatus)
	}
}

func TestStopAndCancelInTheMiddle(t *testing.T) {
	t.Parallel()
	work := func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		req.Progress("work", "working")
		select {
		case <-req.Stopping():
			return sdk.WaitFor("the next call", time.Second), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	plugin := New(t, greeter{reconcile: work}, greeterOptions()...)

	stop := make(chan struct{})
	call := greeterCall()
	call.Stop = stop
	call.OnMessage = func(Message) { close(stop) }
	if result := plugin.Reconcile(t.Context(), call); result.InProgress == nil {
		t.Errorf("expected a job in progress after a stop, but found: %s", result)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the test has had enough")
	call = greeterCall()
	call.OnMessage = func(Message) { cancel(why) }
	if result := plugin.Reconcile(ctx, call); !errors.Is(result.Err, why) {
		t.Errorf("expected the cause of the cancellation, but found: %s", result)
	}
}

// capable implements every optional interface.
type capable struct{ greeter }

func (capable) Abort(context.Context, *sdk.Request) (*sdk.Response, error) {
	return &sdk.Response{Exports: map[string]any{"method": "Abort"}}, nil
}

func (capable) ForceReconcile(context.Context, *sdk.Request) (*sdk.Response, error) {
	return &sdk.Response{Exports: map[string]any{"method": "ForceReconcile"}}, nil
}

func (capable) CheckHealth(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	if req.ChecksHealth { // of a job alone
		return nil, nil
	}
	return sdk.WaitFor("a greeting", 0), nil
}

func (capable) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	return &sdk.RenderResponse{Children: []sdk.Child{{
		Name: req.Target.Name, Object: json.RawMessage(req.Target.Content),
	}}}, nil
}

func (capable) Diff(_ context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	if req.Target == nil {
		return nil, sdk.ConfigurationError("TargetMissing", "spec.target is missing")
	}
	return &sdk.DiffResponse{Changes: []sdk.Change{{
		Object: req.Target.Name, Action: sdk.ActionDelete, Before: json.RawMessage(`{}`), Note: "why not",
	}}}, nil
}

func (capable) Validate(_ context.Context, req *sdk.Request) (*sdk.ValidateResponse, error) {
	message := string(req.DeployItem.Spec.Config.Raw)
	return &sdk.ValidateResponse{Problems: []sdk.Problem{{Field: "greeting", Message: message}}}, nil
}

func (capable) Configure(_ context.Context, req *sdk.ConfigureRequest) (*sdk.ConfigureResponse, error) {
	return &sdk.ConfigureResponse{Problems: []sdk.Problem{{Field: "volume", Message: string(req.Document)}}}, nil
}

func (capable) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	req.Wake("default", "item")
	<-ctx.Done()
	return nil
}

func TestOptionalMethods(t *testing.T) {
	t.Parallel()
	plugin := New(t, capable{}, append(greeterOptions(),
		sdk.ConfigSchema([]byte(`{}`)), sdk.ProviderConfigSchema("example.org/greeter", []byte(`{"type":"object"}`)))...)
	ctx := t.Context()

	wantInfo := &Info{
		Name: "greeter", Version: "1.2.3", SDKVersion: sdk.Release,
		Types: []v1alpha1.DeployItemType{"example.org/greeter"},
		Capabilities: Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Diff: true, Validate: true, Configure: true, Watch: true,
			CheckHealth: true, SeparateDocuments: true, WatchItems: true,
		},
		ConfigSchema:          []byte(`{}`),
		ProviderConfigSchemas: map[v1alpha1.DeployItemType][]byte{"example.org/greeter": []byte(`{"type":"object"}`)},
	}
	if diff := cmp.Diff(wantInfo, plugin.Info()); diff != "" {
		t.Errorf("Info (-want +got):\n%s", diff)
	}
	for method, operation := range map[string]func(context.Context, Call) *Result{
		"Abort": plugin.Abort, "ForceReconcile": plugin.ForceReconcile,
	} {
		want := &Result{Succeeded: &Succeeded{Exports: map[string]any{"method": method}}}
		if diff := cmp.Diff(want, operation(ctx, greeterCall())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", method, diff)
		}
	}

	lacks := &Result{InProgress: &sdk.InProgress{WaitingFor: "a greeting"}}
	if diff := cmp.Diff(lacks, plugin.CheckHealth(ctx, greeterCall())); diff != "" {
		t.Errorf("CheckHealth (-want +got):\n%s", diff)
	}

	const content = `{"apiVersion":"v1","kind":"A","kubeconfig":"…"}`
	call := greeterCall()
	call.Target = &sdk.Target{Name: "here", Type: v1alpha1.KubernetesClusterTargetType, Content: []byte(content)}
	checked := greeterCall()
	checked.DeployItem = DeployItem("example.org/greeter", json.RawMessage(`{"a":1}`))
	validated, validateErr := plugin.Validate(ctx, checked)
	configured, configureErr := plugin.Configure(ctx, []byte(`volume: 11`))
	children, renderErr := plugin.Render(ctx, call)
	changes, diffErr := plugin.Diff(ctx, call)
	diff := cmp.Diff([]any{
		[]sdk.Problem{{Field: "greeting", Message: `{"a":1}`}},
		[]sdk.Problem{{Field: "volume", Message: `volume: 11`}},
		[]sdk.Child{{Name: "here", Object: json.RawMessage(content)}},
		[]sdk.Change{{Object: "here", Action: sdk.ActionDelete, Before: json.RawMessage(`{}`), Note: "why not"}},
	}, []any{validated, configured, children, changes})
	if err := errors.Join(validateErr, configureErr, renderErr, diffErr); diff != "" || err != nil {
		t.Errorf("Validate, Configure, Render and Diff: error %v (-want +got):\n%s", err, diff)
	}
	call.Target = nil
	var refused *Failed
	if _, err := plugin.Diff(ctx, call); !errors.As(err, &refused) || refused.Errors[0].Reason != "TargetMissing" {
		t.Errorf("Diff without a target: expected reason TargetMissing, but found %v", err)
	}

	watchCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var woken string
	err := plugin.Watch(watchCtx, func(namespace, name string) {
		woken = namespace + "/" + name
		cancel()
	})
	if woken != "default/item" || err != nil {
		t.Errorf("Watch: expected default/item, but found %q, error %v", woken, err)
	}
}

func TestMethodsThatThePluginDoesNotHave(t *testing.T) {
	t.Parallel()
	plugin := New(t, greeter{}, greeterOptions()...)
	_, renderErr := plugin.Render(t.Context(), greeterCall())
	_, diffErr := plugin.Diff(t.Context(), greeterCall())
	_, validateErr := plugin.Validate(t.Context(), greeterCall())
	for name, err := range map[string]error{
		"Abort":       plugin.Abort(t.Context(), greeterCall()).Err,
		"CheckHealth": plugin.CheckHealth(t.Context(), greeterCall()).Err,
		"Render":      renderErr, "Diff": diffErr, "Validate": validateErr,
		"Watch": plugin.Watch(t.Context(), func(string, string) {}),
	} {
		if err == nil {
			t.Errorf("%s: expected an error", name)
		}
	}
}

func TestWhatIsNoPlugin(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB){
		"no program":    func(tb testing.TB) { Start(tb, "no-such-file") },
		"wrong options": func(tb testing.TB) { New(tb, greeter{}) },
		"an empty case": func(tb testing.TB) { Conform(tb, New(tb, greeter{}, greeterOptions()...), Case{Name: "empty"}) },
	} {
		if r := record(t, start); !r.fatal {
			t.Errorf("%s was accepted", name)
		}
	}
}
