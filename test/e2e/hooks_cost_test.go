package e2e

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	countedType = "test.pergola.dev/counted"
	// costRounds is how many jobs are measured.
	costRounds = 20
)

// countedPlugin is a plugin in the process of the test that counts the calls of its methods, whichever they are. It has no hooks but can do
// everything else that a host might want for them.
type countedPlugin struct {
	deployerv1.UnimplementedDeployerServiceServer

	mu    sync.Mutex
	calls map[string]int
}

// serveCounted serves a countedPlugin until the end of the test, and returns its address.
func serveCounted(t *testing.T) (p *countedPlugin, address string) {
	t.Helper()
	p = &countedPlugin{calls: map[string]int{}}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, in any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			p.count(call.FullMethod)
			return handle(ctx, in)
		}),
		grpc.StreamInterceptor(func(service any, stream grpc.ServerStream, call *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			p.count(call.FullMethod)
			return handle(service, stream)
		}),
	)
	deployerv1.RegisterDeployerServiceServer(server, p)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	socket := t.TempDir() + "/plugin.sock"
	listener := listen(t, "unix", socket)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p, "unix://" + socket
}

func (p *countedPlugin) count(method string) {
	if !strings.Contains(method, "DeployerService") {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[path.Base(method)]++
}

// counted are the calls of methods that are about an item.
func (p *countedPlugin) counted() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := map[string]int{}
	for method, n := range p.calls {
		if method != "GetInfo" && method != "Configure" {
			calls[method] = n
		}
	}
	return calls
}

// GetInfo says who the plugin is.
func (p *countedPlugin) GetInfo(context.Context, *deployerv1.GetInfoRequest) (*deployerv1.GetInfoResponse, error) {
	return &deployerv1.GetInfoResponse{
		Name: "counted", Version: "v1", DeployItemTypes: []string{countedType}, Capabilities: &deployerv1.Capabilities{Render: true},
	}, nil
}

// Reconcile succeeds.
func (p *countedPlugin) Reconcile(stream grpc.BidiStreamingServer[deployerv1.ReconcileRequest, deployerv1.ReconcileResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	return stream.Send(&deployerv1.ReconcileResponse{Message: &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Result{
		Result: &deployerv1.Result{Outcome: &deployerv1.Result_Succeeded{Succeeded: &deployerv1.Succeeded{}}},
	}}})
}

// TestHookCost: a job without hooks is one call of the plugin, and with hooks one more for each type and plugin.
func TestHookCost(t *testing.T) {
	file := traceFile(t)
	plugin, address := serveCounted(t)
	h := &traced{t: t, file: file, namespace: newNamespace(t), Host: startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "tracer", "hooksonly"), Config: tracedConfig(t, file), Args: []string{"--attach", address},
	})}
	without := newItem(h.namespace, "without", countedType, "")
	waitPhase(t, start(t, without), v1alpha1.DeployItemPhaseSucceeded)
	took := measureJobs(t, without)
	if diff := cmp.Diff(map[string]int{"Reconcile": costRounds + 1}, plugin.counted()); diff != "" {
		t.Errorf("calls of the plugin for %d jobs (-want +got):\n%s", costRounds+1, diff)
	}
	if records := h.ofNamespace(); len(records) != 0 {
		t.Errorf("expected no call of hooks for an item without any, but found %+v", records)
	}

	with := h.newItem("with", nil)
	waitPhase(t, start(t, with), v1alpha1.DeployItemPhaseSucceeded)
	tookWith := measureJobs(t, with)
	h.waitCount(with, string(hook.End), costRounds+1)
	t.Logf("a job takes %s without hooks and %s with one hook of each type in each of two plugins, for which %.1f calls of hooks were made per job",
		took, tookWith, float64(h.checkHooksOncePerJob(with, costRounds+1))/(costRounds+1))
}

// checkHooksOncePerJob checks what was called for so many jobs of an item, and returns how many calls of hooks there were.
func (h *traced) checkHooksOncePerJob(item *v1alpha1.DeployItem, jobs int) (calls int) {
	h.t.Helper()
	perStep := map[string]int{}
	for _, r := range h.ofNamespace() {
		perStep[r.By+" "+r.Step]++
		switch hookType := hook.Type(r.Step); {
		case hookType == hook.DuringResponsibilityCheck: // Start has come before it
			calls += 2
		case slices.Contains(hook.Types(), hookType):
			calls++
		}
	}
	steps := flow(hook.BeforeReconcile, "Reconcile")
	called := slices.Index(steps, "hooksonly "+string(hook.BeforeAnyReconcile))
	for i, step := range steps {
		// Looks that find nothing to do run the hooks before, too.
		if n := perStep[step]; n < jobs || n > jobs && i >= called {
			h.t.Errorf("expected %s once for each of %d jobs of item %s, but found %d calls", step, jobs, item.Name, n)
		}
	}
	if n := perStep["tracer Render"]; n != 0 {
		h.t.Errorf("expected nobody to want the children of an item without an HTTP hook, but found %d calls of Render", n)
	}
	return calls
}

// measureJobs is the median of how long some jobs of an item take, from their setting to what a user sees.
func measureJobs(t *testing.T, item *v1alpha1.DeployItem) time.Duration {
	t.Helper()
	var took []time.Duration
	for range costRounds {
		begun := time.Now()
		carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Millisecond)
}
