package sdk

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// logging logs and panics in each of its methods.
type logging struct{ log *slog.Logger }

func (l logging) fail(log *slog.Logger) {
	log.Info("works")
	panic("no") //nolint:forbidigo // the record of it is tested
}

func (l logging) Reconcile(_ context.Context, req *Request) (*Response, error) {
	l.fail(req.Log)
	return nil, nil
}

func (l logging) Delete(ctx context.Context, req *Request) (*Response, error) {
	return l.Reconcile(ctx, req)
}

func (l logging) Diff(_ context.Context, req *Request) (*DiffResponse, error) {
	l.fail(req.Log)
	return nil, nil
}

func (l logging) Holdings(_ context.Context, req *HoldingsRequest) (*HoldingsResponse, error) {
	l.fail(req.Log)
	return nil, nil
}

func (l logging) Collect(_ context.Context, req *CollectRequest) error {
	l.fail(req.Log)
	return nil
}

func (l logging) Configure(context.Context, *ConfigureRequest) (*ConfigureResponse, error) {
	l.fail(l.log)
	return nil, nil
}

func (l logging) Validate(context.Context, *Request) (*ValidateResponse, error) {
	l.fail(l.log)
	return nil, nil
}

func (l logging) Watch(context.Context, *WatchRequest) error {
	l.fail(l.log)
	return nil
}

func (l logging) Gather() ([]*dto.MetricFamily, error) {
	l.fail(l.log)
	return nil, nil
}

func (l logging) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHook(func(
		context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type,
	) (*hook.Result, error) {
		l.fail(l.log)
		return nil, nil
	}, hook.End)
}

// oneCall is the stream of a call without further messages of the host.
type oneCall struct {
	grpc.ServerStream

	ctx    context.Context //nolint:containedctx // it is that of the stream
	starts chan *deployerv1.HostMessage
}

func (c *oneCall) Context() context.Context { return c.ctx }

func (c *oneCall) Send(*deployerv1.PluginMessage) error { return nil }

func (c *oneCall) Recv() (*deployerv1.HostMessage, error) {
	select {
	case m := <-c.starts:
		return m, nil
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

// Rule (plugin-authors.md#logging): A record of the sdk has the keys of the call, each once.
func TestKeysOfRecords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	deployer := logging{log: log}
	p, err := deployerPlugin(deployer, []Option{Name("a"), Types("a"), Metrics(deployer)})
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(p, log)
	item := []byte(`{"metadata": {"namespace": "shop", "name": "web"}, "status": {"jobID": "job"}}`)
	start := &deployerv1.Start{DeployItem: item, JobId: "job"}
	of := func(keys ...string) []string { return keys }
	job := of(itemKey, jobKey, operationKey)
	for name, tc := range map[string]struct {
		call func(ctx context.Context)
		want []string // beside those of a panic
	}{
		"Reconcile": {func(ctx context.Context) { reconcileOnce(ctx, s, start) }, job},
		"Diff":      {func(ctx context.Context) { _, _ = s.Diff(ctx, &deployerv1.DiffRequest{Start: start}) }, job},
		"Holdings":  {func(ctx context.Context) { _, _ = s.Holdings(ctx, nil) }, of(operationKey)},
		"Collect":   {func(ctx context.Context) { _, _ = s.Collect(ctx, nil) }, of(operationKey)},
		"Configure": {func(ctx context.Context) { _, _ = s.Configure(ctx, nil) }, of(operationKey)},
		"Validate": {func(ctx context.Context) {
			_, _ = s.Validate(ctx, &deployerv1.ValidateRequest{Start: start})
		}, job},
		"Metrics": {func(ctx context.Context) { _, _ = s.Metrics(ctx, nil) }, of(operationKey)},
		"Watch": {func(ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			_ = s.watch(ctx, watchedOnce{deployer, cancel}, &WatchRequest{})
		}, of(operationKey)},
		"RunHooks": {func(ctx context.Context) {
			_, _ = s.RunHooks(ctx, &deployerv1.RunHooksRequest{HookType: string(hook.End), DeployItem: item})
		}, of(itemKey, jobKey, hookTypeKey)},
	} {
		out.Reset()
		tc.call(t.Context())
		panics := 0
		for line := range bytes.Lines(out.Bytes()) {
			keys, values := keysOf(t, line)
			if len(values) != len(keys) {
				t.Errorf("%s: a key is there twice: %s", name, line)
			}
			if _, ok := values["panic"]; ok {
				panics++
				want := slices.Sorted(slices.Values(append(of("time", "level", "msg", "panic", "stack"), tc.want...)))
				if diff := cmp.Diff(want, slices.Sorted(maps.Keys(values))); diff != "" {
					t.Errorf("%s: keys of the panic (-want +got):\n%s", name, diff)
				}
			}
		}
		if panics != 1 {
			t.Errorf("%s: expected one record of a panic, but found %s", name, out.String())
		}
	}
}

// watchedOnce ends the watch after one call.
type watchedOnce struct {
	Watcher

	end func()
}

func (w watchedOnce) Watch(ctx context.Context, req *WatchRequest) error {
	defer w.end()
	return w.Watcher.Watch(ctx, req)
}

func reconcileOnce(ctx context.Context, s *server, start *deployerv1.Start) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := &oneCall{ctx: ctx, starts: make(chan *deployerv1.HostMessage, 1)}
	stream.starts <- &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Start{Start: start}}
	var _ serving.Stream = stream
	_ = s.Reconcile(stream)
}

// keysOf returns the keys of a record as they are written, and what a reader makes of it.
func keysOf(t *testing.T, line []byte) (keys []string, values map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(line))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		text, _ := key.(string)
		keys = append(keys, text)
	}
	if err := json.Unmarshal(line, &values); err != nil {
		t.Fatal(err)
	}
	return keys, values
}
