package conformance

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/strange"
)

const (
	fakeType       = "example.org/fake"
	fakeObject     = `{"apiVersion":"v1","kind":"ConfigMap"}`
	savedStatus    = `{"apiVersion":"example.org/v1","kind":"FakeStatus"}`
	deletingStatus = `{"apiVersion":"example.org/v1","kind":"FakeStatus","deleting":true}`
)

// fake is a deployer without the sdk, and so can break rules that the sdk keeps for its users. It has all capabilities,
// and keeps the rules but for its misbehaviour.
type fake struct {
	deployerv1.UnimplementedDeployerServiceServer

	misbehaviour misbehaviour
}

func (*fake) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	return &deployerv1.GetInfoResponse{
		Name: "fake", Version: "1", DeployItemTypes: []string{fakeType},
		Capabilities: &deployerv1.Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Diff: true, Configure: true, Validate: true, Watch: true,
			CheckHealth: true, SeparateDocuments: true,
			ContextCredentials: true, OcmConfig: true, HostCluster: true, Collect: true, Metrics: true,
			HookTypes: []string{"End", "ShouldReconcile", "Start"}, ScheduleInConfiguration: true,
		},
		ConfigurationSchema:          []byte(`{"type":"object"}`),
		ProviderConfigurationSchemas: map[string][]byte{fakeType: []byte(`{"type":"object"}`)},
	}, nil
}

func (*fake) Configure(_ context.Context, in *deployerv1.ConfigureRequest) (*deployerv1.ConfigureResponse, error) {
	out := &deployerv1.ConfigureResponse{}
	if err := yaml.UnmarshalStrict(in.GetDocument(), &struct {
		Volume int `json:"volume"`
	}{}); err != nil {
		out.Problems = append(out.Problems, &deployerv1.Problem{Message: err.Error()})
	}
	return out, nil
}

func (*fake) Render(context.Context, *deployerv1.RenderRequest) (*deployerv1.RenderResponse, error) {
	children := &deployerv1.Children{Children: []*deployerv1.Child{{Name: "a", Object: []byte(fakeObject)}}}
	return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Children{Children: children}}, nil
}

func (*fake) Validate(_ context.Context, in *deployerv1.ValidateRequest) (*deployerv1.ValidateResponse, error) {
	out := &deployerv1.ValidateResponse{}
	if strings.Contains(string(in.GetProviderConfiguration()), strange.Field) {
		out.Problems = []*deployerv1.Problem{{Field: strange.Field, Message: "unknown field"}}
	}
	return out, nil
}

func (f *fake) Watch(
	_ *deployerv1.WatchRequest, stream grpc.ServerStreamingServer[deployerv1.WatchResponse],
) error {
	if watches := f.misbehaviour.watches; watches != nil {
		return watches(stream.Send)
	}
	<-stream.Context().Done()
	return nil
}

func (*fake) Diff(_ context.Context, in *deployerv1.DiffRequest) (*deployerv1.DiffResponse, error) {
	if len(in.GetStart().GetProviderStatus()) > 0 {
		return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: &deployerv1.Changes{}}}, nil
	}
	change := &deployerv1.Change{Object: "ConfigMap a", Action: "create", After: []byte(fakeObject)}
	changes := &deployerv1.Changes{Changes: []*deployerv1.Change{change}}
	return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: changes}}, nil
}

func (*fake) RunHooks(context.Context, *deployerv1.RunHooksRequest) (*deployerv1.RunHooksResponse, error) {
	noOpinion := &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}}
	return &deployerv1.RunHooksResponse{Outcomes: []*deployerv1.HookOutcome{noOpinion}}, nil
}

func (*fake) Holdings(context.Context, *deployerv1.HoldingsRequest) (*deployerv1.HoldingsResponse, error) {
	held := &deployerv1.HoldingList{Holdings: []*deployerv1.Holding{{Namespace: "default", Name: "a", Uid: "1"}}}
	return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Held{Held: held}}, nil
}

func (*fake) Collect(context.Context, *deployerv1.CollectRequest) (*deployerv1.CollectResponse, error) {
	return &deployerv1.CollectResponse{}, nil
}

func (*fake) Metrics(context.Context, *deployerv1.MetricsRequest) (*deployerv1.MetricsResponse, error) {
	return &deployerv1.MetricsResponse{Families: []byte("# TYPE guests gauge\nguests 3\n")}, nil
}

// message is one of a plugin, and serverStream the stream of an operation, whichever it is.
type (
	message      = deployerv1.PluginMessage
	serverStream = grpc.BidiStreamingServer[deployerv1.HostMessage, message]
)

func (f *fake) Reconcile(stream serverStream) error { return f.operate("Reconcile", stream) }

func (f *fake) Delete(stream serverStream) error { return f.operate("Delete", stream) }

func (f *fake) Abort(stream serverStream) error { return f.operate("Abort", stream) }

func (f *fake) ForceReconcile(stream serverStream) error { return f.operate("ForceReconcile", stream) }

func (f *fake) CheckHealth(stream serverStream) error { return f.operate("CheckHealth", stream) }

// conversation is one call.
type conversation struct {
	serverStream

	method string
	start  *deployerv1.Start // nil if the call begins with something else
	item   string
	fake   *fake
}

// say sends a message, unless the misbehaviour does something else.
func (c *conversation) say(m *message) error {
	if says := c.fake.misbehaviour.says; says != nil {
		return says(c, m)
	}
	return c.Send(m)
}

// operate saves a provider status before it goes on, waits for another call, and exports and reports something then.
func (f *fake) operate(method string, stream serverStream) error {
	c := &conversation{serverStream: stream, method: method, fake: f}
	first, _ := c.Recv() // nil when the call is cancelled
	item := &v1alpha1.DeployItem{}
	if first.GetStart() == nil || json.Unmarshal(first.GetStart().GetDeployItem(), item) != nil {
		return c.say(failed("there is no deploy item"))
	}
	c.start, c.item = first.GetStart(), item.Name
	config, saved := string(c.start.GetProviderConfiguration()), string(c.start.GetProviderStatus())
	switch {
	case method == "Abort", method == "CheckHealth", saved == deletingStatus:
		return c.say(succeeded())
	case method == "Delete":
		return c.say(waiting("the guests to leave", deletingStatus))
	case config == "":
		return c.say(failed("spec.config is missing"))
	case strings.Contains(config, strange.Field):
		return c.say(failed("unknown field " + strange.Field))
	case saved != "":
		m := succeeded()
		m.GetResult().GetSucceeded().Exports = []byte(`{"a":1}`)
		m.GetResult().Conditions = []*deployerv1.Condition{{Type: "Fake", Status: "True", Reason: "AsItWas"}}
		return c.say(m)
	}
	if err := c.say(&message{Content: &deployerv1.PluginMessage_ProviderStatus{
		ProviderStatus: &deployerv1.ProviderStatus{Sequence: 1, Document: []byte(savedStatus)},
	}}); err != nil {
		return err
	}
	answer, err := c.Recv()
	if err != nil {
		return err
	}
	if answer.GetAcknowledgement().GetError() != "" {
		return c.say(failed("the provider status was not saved"))
	}
	return c.say(waiting("the next call", ""))
}

func resultMessage(r *deployerv1.Result) *message {
	return &message{Content: &deployerv1.PluginMessage_Result{Result: r}}
}

func succeeded() *message {
	return resultMessage(&deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}}})
}

func failed(message string) *message {
	errs := []*deployerv1.Error{{
		Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Reconcile", Reason: "Refused", Message: message,
	}}
	return resultMessage(&deployerv1.Result{Outcome: &deployerv1.Result_Failed{Failed: &deployerv1.Failed{Errors: errs}}})
}

func waiting(waitingFor, status string) *message {
	return resultMessage(&deployerv1.Result{
		ProviderStatus: []byte(status),
		Outcome:        &deployerv1.Result_InProgress{InProgress: &deployerv1.InProgress{WaitingFor: waitingFor}},
	})
}

// newServer serves everything but the controller of go-plugin.
func newServer(m misbehaviour, options ...grpc.ServerOption) *grpc.Server {
	change := func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		out, err := handle(ctx, in)
		if m.answers != nil && err == nil {
			m.answers(out)
		}
		return out, err
	}
	options = append(options, grpc.MaxRecvMsgSize(handshake.MaxMessageBytes), grpc.ChainUnaryInterceptor(change))
	server := grpc.NewServer(append(options, m.options...)...)
	deployerv1.RegisterDeployerServiceServer(server, &fake{misbehaviour: m})
	healthServer := health.NewServer()
	healthServer.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthServer)
	return server
}

// serveAttachable serves in this process and returns the address.
func serveAttachable(t *testing.T, m misbehaviour) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fake") //nolint:usetesting // its names do not fit into the address of a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(m)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
		_ = os.RemoveAll(dir)
	})
	return "unix://" + socket
}
