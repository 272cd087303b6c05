package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// watchPause is how long the server waits before it calls a Watcher again that has returned.
const watchPause = time.Second

// server is the plugin's side of the protocol. It turns messages into calls of the deployer and back; nothing of the protocol
// gets past it.
type server struct {
	deployerv1.UnimplementedDeployerServiceServer

	*plugin

	turns   *turns
	log     *slog.Logger
	serving func() // is called when the first call comes
}

var _ deployerv1.DeployerServiceServer = (*server)(nil)

func newServer(p *plugin, log *slog.Logger) *server {
	return &server{plugin: p, turns: newTurns(), log: log, serving: func() {}}
}

func (s *server) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	s.serving()
	return &deployerv1.GetInfoResponse{
		Name:                         s.name,
		Version:                      s.version,
		SdkVersion:                   Release,
		DeployItemTypes:              typesToWire(s.types),
		Capabilities:                 s.capabilities(),
		ConfigurationSchema:          s.configSchema,
		ProviderConfigurationSchemas: s.providerSchemas,
		HookedDeployItemTypes:        typesToWire(s.hookedTypes),
	}, nil
}

func (s *server) capabilities() *deployerv1.Capabilities {
	c := &deployerv1.Capabilities{SeparateDocuments: true, HookTypes: s.hookTypes()}
	_, c.Abort = s.deployer.(Aborter)
	_, c.ForceReconcile = s.deployer.(ForceReconciler)
	_, c.Render = s.deployer.(Renderer)
	_, c.Validate = s.deployer.(Validator)
	_, c.Configure = s.deployer.(Configurer)
	_, c.Watch = s.deployer.(Watcher)
	_, c.Diff = s.deployer.(Differ)
	_, c.Collect = s.deployer.(Collector)
	c.ContextCredentials = s.contextCredentials
	c.HostCluster = s.hostCluster
	return c
}

func (s *server) Configure(ctx context.Context, in *deployerv1.ConfigureRequest) (out *deployerv1.ConfigureResponse, err error) {
	configurer, ok := s.deployer.(Configurer)
	if !ok {
		if len(in.GetDocument()) > 0 {
			return nil, status.Errorf(codes.InvalidArgument, "plugin %q takes no configuration", s.name)
		}
		return &deployerv1.ConfigureResponse{}, nil
	}
	defer s.recover("Configure", s.log, &err)
	res, err := configurer.Configure(ctx, &ConfigureRequest{Document: in.GetDocument()})
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "configure: %v", err)
	}
	return &deployerv1.ConfigureResponse{Problems: problemsToWire(res.problems())}, nil
}

func (s *server) Validate(ctx context.Context, in *deployerv1.ValidateRequest) (out *deployerv1.ValidateResponse, err error) {
	validator, ok := s.deployer.(Validator)
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "plugin %q cannot validate", s.name)
	}
	defer s.recover("Validate", s.log, &err)
	res, err := validator.Validate(ctx, &ValidateRequest{
		Type:   v1alpha1.DeployItemType(in.GetDeployItemType()),
		Config: in.GetProviderConfiguration(),
	})
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "validate: %v", err)
	}
	return &deployerv1.ValidateResponse{Problems: problemsToWire(res.problems())}, nil
}

func (s *server) Reconcile(stream stream) error {
	if s.deployer == nil {
		return status.Errorf(codes.Unimplemented, "plugin %q has no deployer", s.name)
	}
	return s.operate("Reconcile", s.deployer.Reconcile, stream)
}

func (s *server) Delete(stream stream) error {
	if s.deployer == nil {
		return status.Errorf(codes.Unimplemented, "plugin %q has no deployer", s.name)
	}
	return s.operate("Delete", s.deployer.Delete, stream)
}

func (s *server) Abort(stream stream) error {
	aborter, ok := s.deployer.(Aborter)
	if !ok {
		return status.Errorf(codes.Unimplemented, "plugin %q has no Abort", s.name)
	}
	return s.operate("Abort", aborter.Abort, stream)
}

func (s *server) ForceReconcile(stream stream) error {
	forcer, ok := s.deployer.(ForceReconciler)
	if !ok {
		return status.Errorf(codes.Unimplemented, "plugin %q has no ForceReconcile", s.name)
	}
	return s.operate("ForceReconcile", forcer.ForceReconcile, stream)
}

// operation is a method of the deployer that works on a deploy item.
type operation func(context.Context, *Request) (*Response, error)

// operate carries out one call of an operation: the start message comes first, then host and plugin talk while the deployer
// works, and its result goes last.
func (s *server) operate(name string, op operation, stream stream) error {
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("receive start message: %w", err)
	}
	if first.GetStart() == nil {
		return status.Errorf(codes.InvalidArgument, "the first message of %s must be start", name)
	}
	req, err := s.newRequest(name, first.GetStart())
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "%s: %v", name, err)
	}
	c := openConversation(stream, first.GetStart()) // first, for a call that waits for its turn is alive, too
	req.reporter = c
	call := fmt.Sprintf("%s of the deploy item %s/%s", name, req.DeployItem.Namespace, req.DeployItem.Name)
	endTurn, err := s.turns.take(stream.Context(), req.DeployItem.UID, call)
	if err != nil {
		c.stopBeating()
		return status.FromContextError(err).Err()
	}
	defer endTurn()
	return c.finish(s.invoke(stream.Context(), name, op, req))
}

// invoke calls the deployer and turns a panic into an error that fails the job: the same input would panic again. That goes
// for the deployer's methods that are called to describe the result as well, such as MarshalJSON of its provider status.
func (s *server) invoke(ctx context.Context, name string, op operation, req *Request) *deployerv1.Result {
	result, err := func() (result *deployerv1.Result, err error) {
		defer s.recover(name, req.Log, &err)
		res, err := op(ctx, req)
		return resultToWire(name, res, err), nil
	}()
	if err != nil {
		return resultToWire(name, nil, err)
	}
	return result
}

// recover turns a panic into an error. The stack goes to the log, where it belongs, and not into the status of an object.
func (s *server) recover(operation string, log *slog.Logger, err *error) {
	if value := recover(); value != nil {
		log.Error("deployer panicked", "operation", operation, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		*err = panicError(operation, fmt.Errorf("plugin %q %s panicked; its log has the stack", s.name, s.version))
	}
}

// recoverHook is recover for a hook function.
func (s *server) recoverHook(hookType hook.Type, log *slog.Logger, err *error) {
	if value := recover(); value != nil {
		log.Error("hook panicked", "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		*err = panicError(string(hookType), fmt.Errorf("plugin %q %s panicked in its %s hook; its log has the stack", s.name, s.version, hookType))
	}
}

func panicError(operation string, err error) error {
	return &Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}, Operation: operation, Reason: ReasonPanic, Err: err}
}

// checkHealth answers health checks. The health service of go-plugin says in any case that the plugin serves.
func (s *server) checkHealth(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if info.FullMethod == grpc_health_v1.Health_Check_FullMethodName {
		if call := s.turns.overdue(); call != "" {
			return nil, status.Errorf(codes.FailedPrecondition, "%s goes on although it was cancelled", call)
		}
	}
	return handle(ctx, in)
}

func (s *server) Render(ctx context.Context, in *deployerv1.RenderRequest) (*deployerv1.RenderResponse, error) {
	renderer, ok := s.deployer.(Renderer)
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "plugin %q cannot render", s.name)
	}
	req, err := s.newRequest("Render", in.GetStart())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Render: %v", err)
	}
	out, err := func() (out *deployerv1.RenderResponse, err error) {
		defer s.recover("Render", req.Log, &err)
		res, err := renderer.Render(ctx, req)
		return renderedToWire(res, err), nil
	}()
	switch {
	case ctx.Err() != nil: // nobody waits for the answer
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return renderedToWire(nil, err), nil
	default:
		return out, nil
	}
}

func (s *server) Diff(ctx context.Context, in *deployerv1.DiffRequest) (*deployerv1.DiffResponse, error) {
	differ, ok := s.deployer.(Differ)
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "plugin %q cannot diff", s.name)
	}
	req, err := s.newRequest("Diff", in.GetStart())
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "Diff: %v", err)
	}
	out, err := func() (out *deployerv1.DiffResponse, err error) {
		defer s.recover("Diff", req.Log, &err)
		res, err := differ.Diff(ctx, req)
		return diffToWire(res, err), nil
	}()
	switch {
	case ctx.Err() != nil: // nobody waits for the answer
		return nil, status.FromContextError(ctx.Err()).Err()
	case err != nil:
		return diffToWire(nil, err), nil
	default:
		return out, nil
	}
}

func (s *server) RunHooks(ctx context.Context, in *deployerv1.RunHooksRequest) (*deployerv1.RunHooksResponse, error) {
	item, target, err := hookArguments(in)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "RunHooks: %v", err)
	}
	hookType := hook.Type(in.GetHookType())
	log := s.hookLog(hookType, item)
	out := &deployerv1.RunHooksResponse{}
	for _, f := range s.hooks[hookType] {
		if ctx.Err() != nil { // nobody waits for the rest
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		outcome, err := func() (outcome *deployerv1.HookOutcome, err error) {
			defer s.recoverHook(hookType, log, &err)
			result, err := f(ctx, item, target, hookType)
			return hookOutcomeToWire(hookType, result, err), nil
		}()
		if err != nil {
			outcome = hookOutcomeToWire(hookType, nil, err)
		}
		out.Outcomes = append(out.Outcomes, outcome)
	}
	return out, nil
}

// hookLog names the type, and the item and its job if there is one.
func (s *server) hookLog(hookType hook.Type, item *v1alpha1.DeployItem) *slog.Logger {
	log := s.log.With("hookType", string(hookType))
	if item == nil {
		return log
	}
	return log.With("deployitem", item.Namespace+"/"+item.Name, "jobID", item.Status.JobID)
}

func (s *server) Watch(_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse]) error {
	watcher, ok := s.deployer.(Watcher)
	if !ok {
		return status.Errorf(codes.Unimplemented, "plugin %q does not watch", s.name)
	}
	wakeUps := newWakeUps()
	ctx, cancel := context.WithCancel(stream.Context())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		s.watch(ctx, watcher, wakeUps.add)
	}()
	err := wakeUps.forward(ctx, stream.Send)
	cancel()
	<-watching
	return err
}

// watch calls the Watcher, again and again, until ctx ends.
func (s *server) watch(ctx context.Context, watcher Watcher, wake func(namespace, name string)) {
	for ctx.Err() == nil {
		err := func() (err error) {
			defer s.recover("Watch", s.log, &err)
			return watcher.Watch(ctx, wake)
		}()
		if err != nil && !errors.Is(err, context.Canceled) {
			s.log.Warn("deployer stopped watching; it is called again", "error", err.Error(), "pause", watchPause.String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}
