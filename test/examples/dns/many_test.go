package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/conformance"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
	"github.com/pergola-deploy/pergola/test/examples/dns/zoneapi"
)

// Thirty items at once, a zone with all faults, and a plugin that is killed between a creation and its answer: each
// record is there once, and none is left behind.
func TestKilledAmongMany(t *testing.T) {
	t.Parallel()
	const items, killedAt = 30, 10
	api := zoneapi.New(token, zoneapi.Faults{
		Delay: time.Millisecond, ThrottleEach: 13, FailEach: 7, BreakEach: 5, Looks: 2,
	})
	host := &host{t: t}
	host.restart(nil)
	var creations atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && creations.Add(1) == killedAt {
			w = httptest.NewRecorder()
			defer host.kill()
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	target := targetAt(t, server.URL)

	var calls [items]sdktest.Call
	atOnce := func(operation func(*sdktest.Plugin, context.Context, sdktest.Call) *sdktest.Result) {
		var jobs sync.WaitGroup
		for i := range calls {
			jobs.Go(func() { calls[i] = host.job(operation, calls[i]) })
		}
		jobs.Wait()
	}
	for i := range calls {
		c := config{APIVersion: apiVersion, Kind: configs.Kind, record: record{
			Name: fmt.Sprintf("host-%d.example.org", i), Type: "TXT", TTLSeconds: 60, Values: []string{"a"},
		}}
		calls[i] = sdktest.Call{DeployItem: sdktest.DeployItem(itemType, c), Target: target}
		calls[i].DeployItem.Name, calls[i].DeployItem.UID = c.Name, types.UID(c.Name)
	}
	atOnce((*sdktest.Plugin).Reconcile)
	records := api.Records()
	for i := range calls {
		name := calls[i].DeployItem.Name
		if ids := records[name]; len(ids) != 1 || !api.Record(ids[0]).Published {
			t.Errorf("%s: expected one published record, but found %v", name, ids)
		}
	}
	if host.starts != 2 || len(records) != items {
		t.Errorf("expected %d records after one kill, but found %d after %d starts", items, len(records), host.starts)
	}
	atOnce((*sdktest.Plugin).Delete)
	if left := api.Records(); len(left) > 0 {
		t.Errorf("expected an empty zone, but found %v", left)
	}
}

// host starts the plugin as a process, and again after it was killed.
type host struct {
	t *testing.T

	mu      sync.Mutex
	plugin  *sdktest.Plugin
	process *os.Process
	starts  int
}

// restart starts a plugin in the place of a dead one, unless another goroutine has, and returns the running one.
func (h *host) restart(dead *sdktest.Plugin) *sdktest.Plugin {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.plugin != dead {
		return h.plugin
	}
	binary, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	plugin, err := conformance.Start(h.t.Context(), binary, conformance.Options{
		Env: []string{asPlugin + "=true"},
		Start: func(cmd *exec.Cmd, _ string) (*exec.Cmd, error) {
			err := cmd.Start()
			h.process = cmd.Process
			return cmd, err
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(plugin.Close)
	h.plugin = plugin
	h.starts++
	return plugin
}

func (h *host) kill() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.process.Kill() // it runs
}

// job repeats an operation until it succeeds, as a host does, and returns the next call for the item.
func (h *host) job(
	operation func(*sdktest.Plugin, context.Context, sdktest.Call) *sdktest.Result, call sdktest.Call,
) sdktest.Call {
	plugin := h.restart(nil)
	for h.t.Context().Err() == nil {
		result := operation(plugin, h.t.Context(), call)
		call = call.After(result)
		switch {
		case result.Succeeded != nil:
			return call
		case result.Err != nil:
			plugin = h.restart(plugin)
		case result.Failed != nil && len(result.Failed.Codes()) > 0:
			h.t.Errorf("%s: it %s", call.DeployItem.Name, result)
			return call
		}
	}
	return call
}
