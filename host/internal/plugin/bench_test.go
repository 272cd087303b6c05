package plugin

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

func itemOf(size int) *v1alpha1.DeployItem {
	item := deployItem("item")
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(`"` + strings.Repeat("x", size) + `"`)}
	return item
}

// BenchmarkCall compares a call through the protocol with one of the same deployer in the same process. The metrics are
// the quantiles of one call.
func BenchmarkCall(b *testing.B) {
	p := start(b, "echo").plugin("echo")
	calls := map[string]func(*v1alpha1.DeployItem) error{
		"plugin": func(item *v1alpha1.DeployItem) error {
			_, err := p.Call(b.Context(), Reconcile, Call{DeployItem: item}, &observer{})
			return err
		},
		"validate": func(item *v1alpha1.DeployItem) error {
			_, err := p.Validate(b.Context(), Call{DeployItem: item})
			return err
		},
		"in-process": func(item *v1alpha1.DeployItem) error {
			_, err := echo{}.Reconcile(b.Context(), &sdk.Request{DeployItem: item, Context: &v1alpha1.Context{}})
			return err
		},
	}
	for _, way := range []string{"plugin", "validate", "in-process"} {
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
	p := start(b, "hooks").plugin("hooks")
	for _, atOnce := range []int{1, 64} {
		b.Run(strconv.Itoa(atOnce), func(b *testing.B) {
			benchmarkCalls(b, atOnce, itemOf(1<<10), func(item *v1alpha1.DeployItem) error {
				outcomes, err := p.RunHooks(b.Context(), HookCall{Type: hook.End, DeployItem: item})
				if err == nil && len(outcomes) != 1 {
					return fmt.Errorf("expected one outcome, but found %v", outcomes)
				}
				return err
			})
		})
	}
}

// BenchmarkStart measures the start of a plugin until it answers a health check.
func BenchmarkStart(b *testing.B) {
	log := slog.New(slog.DiscardHandler)
	for name, mode := range map[string]sandbox.Mode{"confined": sandbox.Auto, "unconfined": sandbox.Off} {
		b.Run(name, func(b *testing.B) {
			h := openHost(b, pluginDir(b, "echo"))
			program := h.plugin("echo").program
			defer program.Close()
			if _, err := program.Open(); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				process, err := program.Launch(b.Context(), Profile{Confinement: mode}, h.settings.launch(), log)
				if err != nil {
					b.Fatal(err)
				}
				if err := session.New(process, log).Check(b.Context(), time.Minute); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				process.Stop()
				b.StartTimer()
			}
		})
	}
}
