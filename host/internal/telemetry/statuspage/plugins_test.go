package statuspage

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// fullPlugin is a plugin of which everything is known.
func fullPlugin() plugin.Detail {
	return plugin.Detail{
		Status: plugin.Status{
			File: "helm-deployer", State: plugin.Running,
			Info: &plugin.Info{
				Name: "helm", Version: "v1.2.3", SDKVersion: "v0.4.0",
				Types:       []v1alpha1.DeployItemType{"example.org/chart", "example.org/helm"},
				HookedTypes: []v1alpha1.DeployItemType{"example.org/helm", "example.org/other"},
				Capabilities: plugin.Capabilities{
					Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, Diff: true,
					ContextCredentials: true, ContextOCMConfig: true, HostCluster: true, Collect: true,
					Metrics: true, HookTypes: []string{"a", "b"},
				},
				Limits: plugin.Limits{
					MaxCalls: 4, MaxCallsPerTarget: 1,
					Timeouts: map[v1alpha1.DeployItemType]time.Duration{"example.org/helm": time.Hour},
				},
			},
			Restarts: map[plugin.Reason]int{plugin.ReasonExit: 2}, StartTook: 250 * time.Millisecond, Pid: 4711, Calls: 3,
			DroppedLines: 9,
		},
		SHA256: strings.Repeat("ab", 32), Memory: 64 << 20, Confinement: "landlock (ABI 7): files",
	}
}

// Scripts of operators read the names of these fields.
func TestPluginsAsJSON(t *testing.T) {
	t.Parallel()
	starting := plugin.Detail{Status: plugin.Status{File: "new", State: plugin.Starting}}
	text, err := json.MarshalIndent(ListOf([]plugin.Detail{fullPlugin(), starting}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	commandtest.ExpectGolden(t, "plugins.golden.json", string(text)+"\n")
	empty, err := json.Marshal(ListOf(nil))
	if err != nil || string(empty) != `{"plugins":[]}` {
		t.Errorf("a host without plugins: %s, %v", empty, err)
	}
}
