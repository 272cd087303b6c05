package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// benchPlugin starts a plugin as the host does.
func benchPlugin(b *testing.B, role string, confinement sandbox.Mode) *Plugin {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	if err := os.Link(self, filepath.Join(dir, role)); err != nil {
		b.Fatal(err)
	}
	file, err := openProgram(dir, role)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = file.Close() })
	sockets, err := os.MkdirTemp("", "bench") //nolint:usetesting // whose paths are too long for sockets
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(sockets) })
	settings := testSettings(sockets)
	p, err := launch(b.Context(), file, role, Profile{Confinement: confinement}, settings, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	p.info = &Info{Capabilities: Capabilities{SeparateDocuments: true}} // as every plugin says that was built with the sdk
	return &Plugin{settings: settings, process: p}
}

func itemOf(size int) *v1alpha1.DeployItem {
	item := deployItem("item")
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(`"` + strings.Repeat("x", size) + `"`)}
	return item
}

// BenchmarkCall compares a call through the protocol with one of the same deployer in the same process. The metrics are
// the quantiles of one call.
func BenchmarkCall(b *testing.B) {
	p := benchPlugin(b, "echo", sandbox.Auto)
	defer p.process.stop()
	calls := map[string]func(*v1alpha1.DeployItem) error{
		"plugin": func(item *v1alpha1.DeployItem) error {
			_, err := p.Call(b.Context(), Reconcile, Call{DeployItem: item}, &observer{})
			return err
		},
		"in-process": func(item *v1alpha1.DeployItem) error {
			_, err := echo{}.Reconcile(b.Context(), &sdk.Request{DeployItem: item, Context: &v1alpha1.Context{}})
			return err
		},
	}
	for _, way := range []string{"plugin", "in-process"} {
		for size, bytes := range map[string]int{"1KB": 1 << 10, "1MB": 1 << 20} {
			for _, atOnce := range []int{1, 64} {
				b.Run(fmt.Sprintf("%s/%s/%d", way, size, atOnce), func(b *testing.B) {
					benchmarkCalls(b, atOnce, itemOf(bytes), calls[way])
				})
			}
		}
	}
}

func benchmarkCalls(b *testing.B, atOnce int, item *v1alpha1.DeployItem, call func(*v1alpha1.DeployItem) error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	work := make(chan int)
	var callers sync.WaitGroup
	for range atOnce {
		callers.Go(func() {
			own := item.DeepCopy()
			for i := range work {
				began := time.Now()
				if err := call(own); err != nil {
					b.Error(err)
				}
				took[i] = time.Since(began)
			}
		})
	}
	for i := range b.N {
		work <- i
	}
	close(work)
	callers.Wait()
	slices.Sort(took)
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(took[(b.N-1)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", percent))
	}
}

// BenchmarkHooks is a call of one hook of one plugin for an item of 1 KB, in the same metrics.
func BenchmarkHooks(b *testing.B) {
	p := benchPlugin(b, "hooks", sandbox.Auto)
	defer p.process.stop()
	for _, atOnce := range []int{1, 64} {
		b.Run(strconv.Itoa(atOnce), func(b *testing.B) {
			benchmarkCalls(b, atOnce, itemOf(1<<10), func(item *v1alpha1.DeployItem) error {
				outcomes, err := p.RunHooks(b.Context(), hook.End, item, nil)
				if err == nil && len(outcomes) != 1 {
					return fmt.Errorf("expected one outcome, but found %v", outcomes)
				}
				return err
			})
		})
	}
}

// BenchmarkStart measures the start of a plugin until it has said who it is, with its program read and hashed.
func BenchmarkStart(b *testing.B) {
	for name, mode := range map[string]sandbox.Mode{"confined": sandbox.Auto, "unconfined": sandbox.Off} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				p := benchPlugin(b, "echo", mode).process
				if err := p.check(context.Background(), time.Minute); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				p.stop()
				b.StartTimer()
			}
		})
	}
}
