package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/internal/message"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// The keys of the sdk in the records of a call; each record has a key once. They are documented: see "Logging" in
// docs/plugin-authors.md.
const (
	itemKey      = "deployitem"
	jobKey       = "jobID"
	operationKey = "operation" // a method of the deployer; a hook has hookType instead
	hookTypeKey  = "hookType"
)

// server is the plugin's side of the protocol. It turns messages into calls of the deployer and back.
type server struct {
	deployerv1.UnimplementedDeployerServiceServer

	plugin  *plugin
	running *serving.RunningCalls
	log     *slog.Logger
}

var _ deployerv1.DeployerServiceServer = (*server)(nil)

func newServer(p *plugin, log *slog.Logger) *server {
	return &server{plugin: p, running: serving.NewRunningCalls(), log: log}
}

// unimplemented is the answer to a call without a method of the plugin.
func (s *server) unimplemented(method string) error {
	name := s.plugin.Info.GetName()
	if s.plugin.deployer == nil {
		return status.Errorf(codes.Unimplemented, "plugin %q has no deployer", name)
	}
	return status.Errorf(codes.Unimplemented, "the deployer of plugin %q does not implement %s", name, method)
}

// GetInfo implements DeployerServiceServer.
func (s *server) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	return proto.CloneOf(s.plugin.Info), nil // to send a message may change it
}

// Configure implements DeployerServiceServer.
func (s *server) Configure(
	ctx context.Context, in *deployerv1.ConfigureRequest,
) (*deployerv1.ConfigureResponse, error) {
	configurer, ok := s.plugin.deployer.(Configurer)
	if !ok {
		if len(in.GetDocument()) > 0 {
			return nil, status.Errorf(codes.InvalidArgument, "plugin %q takes no configuration", s.plugin.Info.GetName())
		}
		return &deployerv1.ConfigureResponse{}, nil
	}
	log := s.log.With(operationKey, "Configure")
	res, err := guarded(s, log, "deployer", "Configure", func() (*ConfigureResponse, error) {
		return configurer.Configure(ctx, &ConfigureRequest{Document: in.GetDocument()})
	})
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "configure: %v", err)
	}
	if res == nil {
		res = &ConfigureResponse{}
	}
	return &deployerv1.ConfigureResponse{
		Problems: wire.Each(res.Problems, problemToWire), MaxCalls: uint32(min(max(res.MaxCalls, 0), math.MaxInt32)),
	}, nil
}

// Reconcile implements DeployerServiceServer.
func (s *server) Reconcile(stream serving.Stream) error {
	return operate(s, "Reconcile", stream, Deployer.Reconcile)
}

// Delete implements DeployerServiceServer.
func (s *server) Delete(stream serving.Stream) error {
	return operate(s, "Delete", stream, Deployer.Delete)
}

// Abort implements DeployerServiceServer.
func (s *server) Abort(stream serving.Stream) error {
	return operate(s, "Abort", stream, Aborter.Abort)
}

// ForceReconcile implements DeployerServiceServer.
func (s *server) ForceReconcile(stream serving.Stream) error {
	return operate(s, "ForceReconcile", stream, ForceReconciler.ForceReconcile)
}

// CheckHealth implements DeployerServiceServer.
func (s *server) CheckHealth(stream serving.Stream) error {
	return operate(s, "CheckHealth", stream, HealthChecker.CheckHealth)
}

// operate carries out one call of a method of D, if the deployer is one: the start message comes first, then host and
// plugin exchange messages while the deployer works, and its result goes last.
func operate[D any](
	s *server, name string, stream serving.Stream, method func(D, context.Context, *Request) (*Response, error),
) error {
	deployer, ok := s.plugin.deployer.(D)
	if !ok {
		return s.unimplemented(name)
	}
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("receive start message: %w", err)
	}
	if first.GetStart() == nil {
		return status.Errorf(codes.InvalidArgument, "the first message of %s must be start", name)
	}
	req, err := s.request(name, first.GetStart())
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "%s: %v", name, err)
	}
	// Opened before the wait, because a waiting call is alive, too.
	req.call = serving.OpenCall(stream, first.GetStart())
	ctx := stream.Context()
	description := fmt.Sprintf("%s of the deploy item %s/%s", name, req.DeployItem.Namespace, req.DeployItem.Name)
	end, err := s.running.Begin(ctx, req.DeployItem.UID, description)
	if err != nil {
		return status.FromContextError(err).Err()
	}
	defer end()
	return req.call.Finish(bounded(described(s, req.Log, "deployer", name,
		func() (*Response, error) { return method(deployer, ctx, req) },
		func(res *Response, err error) *deployerv1.Result { return resultToWire(name, req, res, err) })))
}

// request reads the start of a call.
func (s *server) request(operation string, start *deployerv1.Start) (*Request, error) {
	req, err := newRequest(start)
	if err != nil {
		return nil, err
	}
	item := req.DeployItem.Namespace + "/" + req.DeployItem.Name
	req.Log = s.log.With(itemKey, item, jobKey, req.JobID, operationKey, operation)
	return req, nil
}

// Render implements DeployerServiceServer.
func (s *server) Render(ctx context.Context, in *deployerv1.RenderRequest) (*deployerv1.RenderResponse, error) {
	return answer(ctx, s, "Render", in.GetStart(), Renderer.Render, renderedToWire)
}

// Diff implements DeployerServiceServer.
func (s *server) Diff(ctx context.Context, in *deployerv1.DiffRequest) (*deployerv1.DiffResponse, error) {
	return answer(ctx, s, "Diff", in.GetStart(), Differ.Diff, diffToWire)
}

// answer carries out a call of a method of D that changes nothing, if the deployer is one.
func answer[D, R, M any](
	ctx context.Context, s *server, name string, start *deployerv1.Start,
	method func(D, context.Context, *Request) (R, error), toWire func(R, error) *M,
) (*M, error) {
	deployer, ok := s.plugin.deployer.(D)
	if !ok {
		return nil, s.unimplemented(name)
	}
	req, err := s.request(name, start)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "%s: %v", name, err)
	}
	return described(s, req.Log, "deployer", name,
		func() (R, error) { return method(deployer, ctx, req) }, toWire), nil
}

// Holdings implements DeployerServiceServer.
func (s *server) Holdings(ctx context.Context, in *deployerv1.HoldingsRequest) (*deployerv1.HoldingsResponse, error) {
	collector, ok := s.plugin.deployer.(Collector)
	if !ok {
		return nil, s.unimplemented("Holdings")
	}
	req := &HoldingsRequest{
		HostCluster: hostClusterFromWire(in.GetHostCluster()), Log: s.log.With(operationKey, "Holdings"),
	}
	return described(s, req.Log, "deployer", "Holdings",
		func() (*HoldingsResponse, error) { return collector.Holdings(ctx, req) }, heldToWire), nil
}

// Collect implements DeployerServiceServer.
func (s *server) Collect(ctx context.Context, in *deployerv1.CollectRequest) (*deployerv1.CollectResponse, error) {
	collector, ok := s.plugin.deployer.(Collector)
	if !ok {
		return nil, s.unimplemented("Collect")
	}
	req := &CollectRequest{
		Holdings:    wire.Each(in.GetHoldings(), holdingFromWire),
		HostCluster: hostClusterFromWire(in.GetHostCluster()),
		Log:         s.log.With(operationKey, "Collect"),
	}
	return described(s, req.Log, "deployer", "Collect",
		func() (struct{}, error) { return struct{}{}, collector.Collect(ctx, req) }, collectedToWire), nil
}

// RunHooks implements DeployerServiceServer.
func (s *server) RunHooks(ctx context.Context, in *deployerv1.RunHooksRequest) (*deployerv1.RunHooksResponse, error) {
	documents, err := message.ReadHooks(in)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "RunHooks: %v", err)
	}
	hookType := hook.Type(in.GetHookType())
	log := s.log.With(hookTypeKey, in.GetHookType())
	item := documents.DeployItem
	if item != nil {
		log = log.With(itemKey, item.Namespace+"/"+item.Name, jobKey, item.Status.JobID)
	}
	ctx = s.plugin.withHookTarget(ctx, in, item)
	out := &deployerv1.RunHooksResponse{}
	for _, f := range s.plugin.Hooks[hookType] {
		if ctx.Err() != nil { // the call was cancelled
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		out.Outcomes = append(out.Outcomes, described(s, log, "hook", in.GetHookType(),
			func() (*hook.Result, error) { return f(ctx, item, documents.Target, hookType) },
			func(res *hook.Result, err error) *deployerv1.HookOutcome {
				return hookOutcomeToWire(hookType, res, err)
			}))
	}
	return out, nil
}

// guarded runs a method of the deployer, or a hook function. A panic becomes an error that fails the job, because the
// same input would panic again. The stack goes to the log and not into the status of an object.
func guarded[T any](s *server, log *slog.Logger, who, operation string, run func() (T, error)) (out T, err error) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		where := ""
		if who == "hook" {
			where = " in its " + operation + " hook"
		}
		log.Error(who+" panicked", "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		info := s.plugin.Info
		err = &Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}, Operation: operation, Reason: ReasonPanic,
			Err: fmt.Errorf("plugin %q %s panicked%s; the stack is in the log of the host, in the record with its plugin and "+
				"jobID: in Kubernetes, see kubectl logs of the host's Pod", info.GetName(), info.GetVersion(), where),
		}
	}()
	return run()
}

// described is guarded with a message about the outcome. The functions for that message, such as MarshalJSON of a
// provider status, belong to the plugin and may panic as well.
func described[R, M any](
	s *server, log *slog.Logger, who, operation string, run func() (R, error), toWire func(R, error) M,
) M {
	out, err := guarded(s, log, who, operation, func() (M, error) { return toWire(run()), nil })
	if err != nil {
		var none R
		return toWire(none, err)
	}
	return out
}
