package sdktest

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

const (
	// endWithin is how soon calls and processes have to end after they were told to.
	endWithin = 10 * time.Second
	// answerWithin is how soon GetInfo has to answer.
	answerWithin = 10 * time.Second
	// pollAtMost is how long ReconcileUntilDone and DeleteUntilDone wait between two calls. A deployer may be called earlier
	// than it asked for at any time, and a test need not wait as a host does.
	pollAtMost = 100 * time.Millisecond
)

// Plugin is a deployer that is called through the protocol. It ends with the test that it was made for. Its methods may be
// called from several goroutines; they report broken rules to that test.
type Plugin struct {
	t      testing.TB
	client deployerv1.DeployerServiceClient
}

// New serves the deployer within this process, with the options that its main function gives to sdk.Serve. What it logs goes
// to the log of the test. Wrong options fail the test at once. When the test ends, so do its calls; one that does not end
// breaks the rule call-ends.
func New(t testing.TB, deployer sdk.Deployer, opts ...sdk.Option) *Plugin {
	t.Helper()
	return serve(t, endWithin, deployer, opts)
}

func serve(t testing.TB, endWithin time.Duration, deployer sdk.Deployer, opts []sdk.Option) *Plugin {
	t.Helper()
	out := newOutput(t)
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	// t.Context ends before the cleanup functions of the test run, which may still want to delete something.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	at, done, err := sdk.ServeInProcess(ctx, log, deployer, opts...)
	if err != nil {
		cancel()
		t.Fatalf("sdktest: serve the deployer: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(endWithin):
			reportBroken(t, "end of the test", RuleCallEnds, "a call has not returned %s after it was cancelled", endWithin)
		}
		out.close()
	})
	return dial(t, at)
}

// dial connects to a deployer that is served somewhere.
func dial(t testing.TB, at *sdk.Attachment) *Plugin {
	t.Helper()
	conn, err := grpc.NewClient(at.Network+":"+at.Address, grpc.WithTransportCredentials(insecure.NewCredentials()), messageSize())
	if err != nil {
		t.Fatalf("sdktest: connect to the deployer: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &Plugin{t: t, client: deployerv1.NewDeployerServiceClient(conn)}
}

func messageSize() grpc.DialOption {
	return grpc.WithDefaultCallOptions(
		grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
		grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
	)
}

// Info is what a plugin tells about itself.
type Info struct {
	// Name of the plugin, a DNS label.
	Name string
	// Version of the plugin, and of the sdk that it was built with.
	Version, SDKVersion string
	// Types of deploy items that it serves.
	Types []v1alpha1.DeployItemType
	// Capabilities are the optional parts of the protocol that it implements.
	Capabilities Capabilities
	// ConfigSchema is the JSON schema of the plugin's own configuration document; empty for none.
	ConfigSchema []byte
	// ProviderConfigSchemas are the JSON schemas of provider configurations.
	ProviderConfigSchemas map[v1alpha1.DeployItemType][]byte
}

// Capabilities are the optional parts of the protocol that a plugin implements.
type Capabilities struct {
	Abort, ForceReconcile, Render, Validate, Configure, Watch bool
	// Hooks are the types for which at least one function is registered.
	Hooks []hook.Type
}

// Info asks the plugin who it is and what it can do.
func (p *Plugin) Info() *Info {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.t.Context()), answerWithin)
	defer cancel()
	info, err := p.info(ctx)
	if err != nil {
		p.t.Fatalf("sdktest: GetInfo: %v", err)
	}
	return info
}

func (p *Plugin) info(ctx context.Context) (*Info, error) {
	in, err := p.client.GetInfo(ctx, &deployerv1.GetInfoRequest{HostVersion: "sdktest"})
	if err != nil {
		return nil, err
	}
	capabilities := in.GetCapabilities()
	info := &Info{
		Name:       in.GetName(),
		Version:    in.GetVersion(),
		SDKVersion: in.GetSdkVersion(),
		Capabilities: Capabilities{
			Abort:          capabilities.GetAbort(),
			ForceReconcile: capabilities.GetForceReconcile(),
			Render:         capabilities.GetRender(),
			Validate:       capabilities.GetValidate(),
			Configure:      capabilities.GetConfigure(),
			Watch:          capabilities.GetWatch(),
		},
		ConfigSchema:          in.GetConfigurationSchema(),
		ProviderConfigSchemas: map[v1alpha1.DeployItemType][]byte{},
	}
	for _, t := range in.GetDeployItemTypes() {
		info.Types = append(info.Types, v1alpha1.DeployItemType(t))
	}
	for _, t := range capabilities.GetHookTypes() {
		info.Capabilities.Hooks = append(info.Capabilities.Hooks, hook.Type(t))
	}
	for t, schema := range in.GetProviderConfigurationSchemas() {
		info.ProviderConfigSchemas[v1alpha1.DeployItemType(t)] = schema
	}
	return info, nil
}

// output passes what a plugin writes on to the test, until the test ends: testing panics on a write after that, and a plugin
// may write whenever it wants.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func newOutput(t testing.TB) *output { return &output{w: t.Output()} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.w = io.Discard
}
