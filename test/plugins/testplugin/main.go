// Command testplugin is the plugins that the host's tests are made with. The name of its file says which of them it is:
//
//   - probe is a deployer whose provider configuration says how it is to behave. It leaves traces in files, so that a
//     test can see what it was called for and decide when it goes on.
//   - tracer is a deployer with hooks of all types, which behave as the provider configuration says.
//   - hooksonly has hooks of all types for the deploy items of mock and tracer, without an opinion, and no deployer.
//   - keeper keeps objects in the host cluster.
//   - rogue breaks every rule; behind a hyphen the file's name says how, such as rogue-exits. See package rogue.
//
// tracer and hooksonly record their calls in the file that their first argument names; see package trace.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/sdk"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/plugins/testplugin/rogue"
	"github.com/pergola-deploy/pergola/test/plugins/testplugin/trace"
)

const tracedType = "example.org/trace"

func main() {
	file := filepath.Base(os.Args[0])
	plugin, mode, _ := strings.Cut(file, "-")
	var record trace.File
	if len(os.Args) > 1 {
		record = trace.File(os.Args[1])
	}
	name, version := sdk.Name(plugin), sdk.Version("v1")
	switch plugin {
	case "probe":
		sdk.Serve(newDeployer(""), name, version, sdk.Types("test.pergola.dev/probe"))
	case "tracer":
		sdk.Serve(tracer{newDeployer(record)}, name, version, sdk.Types(tracedType), sdk.Metrics(ownMetrics()))
	case "hooksonly":
		hooks := hook.Hooks{}.RegisterHook(record.Hook(plugin), hook.Types()...)
		sdk.ServeHooks(hooks, name, version, sdk.HookedTypes(mockv1alpha1.Type, tracedType))
	case "keeper":
		sdk.Serve(keeper{}, name, version, sdk.Types("test.pergola.dev/keeper"), sdk.HostClusterAccess(),
			sdk.ContextOCMConfig())
	case "rogue":
		rogue.Serve(file, mode)
	default:
		fmt.Fprintln(os.Stderr, "there is no plugin "+file)
		os.Exit(1)
	}
}

// ownMetrics has one counter.
func ownMetrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	requests := prometheus.NewCounter(prometheus.CounterOpts{Name: "requests_total", Help: "Requests of the tracer."})
	registry.MustRegister(requests)
	requests.Inc()
	return registry
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
