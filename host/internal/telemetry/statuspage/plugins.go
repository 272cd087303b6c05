package statuspage

import (
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// PluginList are the plugins of a host.
type PluginList struct {
	// Plugins in order of their files; attached ones come last.
	Plugins []Plugin `json:"plugins"`
}

// Plugin is a plugin of a host.
type Plugin struct {
	// File in the plugin directory, or the address of an attached plugin.
	File string `json:"file"`
	// Name, Version, SDKVersion, Types and all up to HookedTypes are reported by the plugin; empty before its first start.
	Name       string   `json:"name,omitempty"`
	Version    string   `json:"version,omitempty"`
	SDKVersion string   `json:"sdkVersion,omitempty"`
	Types      []string `json:"types,omitempty"`
	// Capabilities beyond reconciling and deleting: abort, forceReconcile, render, validate, configure, watch, diff,
	// contextCredentials, contextOCMConfig, hostCluster, collect, metrics, hooks.
	Capabilities []string `json:"capabilities,omitempty"`
	// HookTypes of the plugin's functions.
	HookTypes []string `json:"hookTypes,omitempty"`
	// HookedTypes are the types of deploy items with these hooks, of any deployer.
	HookedTypes []string `json:"hookedTypes,omitempty"`
	// Limits of its calls.
	Limits
	// SHA256 of the loaded program, in hexadecimal digits; empty if there is none.
	SHA256 string `json:"sha256,omitempty"`
	// State: Starting, Running, Standby, Backoff, CrashLoop, Refused, Missing or Stopped.
	State string `json:"state"`
	// Problem is the reason why it does not work; empty if it works.
	Problem string `json:"problem,omitempty"`
	// Restarts is the number of starts after the first one, by the reason for the end of the process before: start, exit,
	// wedged or memory. Reasons without a restart are left out.
	Restarts map[string]int `json:"restarts,omitempty"`
	// StartSeconds is the time from the last start to the first possible call.
	StartSeconds float64 `json:"startSeconds,omitempty"`
	// PID is the process id; zero without a process of the host's own.
	PID int `json:"pid,omitempty"`
	// Calls is the number of calls under way.
	Calls int `json:"calls"`
	// MemoryBytes is the memory of the process and its children.
	MemoryBytes uint64 `json:"memoryBytes,omitempty"`
	// Confinement describes the confinement of the process.
	Confinement string `json:"confinement,omitempty"`
	// DroppedLogLines is the number of lines dropped from its log because there were too many.
	DroppedLogLines uint64 `json:"droppedLogLines,omitempty"`
}

// Restarted is the number of starts after the first one.
func (p Plugin) Restarted() int {
	total := 0
	for _, n := range p.Restarts {
		total += n
	}
	return total
}

// ListOf lists plugins with their details.
func ListOf(details []plugin.Detail) *PluginList {
	list := &PluginList{Plugins: make([]Plugin, 0, len(details))}
	for _, d := range details {
		list.Plugins = append(list.Plugins, pluginOf(d))
	}
	return list
}

func pluginOf(d plugin.Detail) Plugin {
	p := Plugin{
		File: d.File, SHA256: d.SHA256, State: string(d.State),
		StartSeconds: d.StartTook.Seconds(), PID: d.Pid, Calls: d.Calls,
		MemoryBytes: d.Memory, Confinement: d.Confinement, DroppedLogLines: d.DroppedLines,
	}
	if d.Problem != nil {
		p.Problem = d.Problem.Error()
	}
	for reason, n := range d.Restarts {
		if p.Restarts == nil {
			p.Restarts = map[string]int{}
		}
		p.Restarts[string(reason)] = n
	}
	if d.Info != nil {
		p.Name, p.Version, p.SDKVersion = d.Info.Name, d.Info.Version, d.Info.SDKVersion
		p.Types, p.HookedTypes = namesOf(d.Info.Types), namesOf(d.Info.HookedTypes)
		p.Capabilities, p.HookTypes = capabilitiesOf(d.Info.Capabilities), d.Info.Capabilities.HookTypes
		p.Limits = LimitsOf(d.Info.Limits)
	}
	return p
}

func namesOf(types []v1alpha1.DeployItemType) []string {
	var names []string
	for _, t := range types {
		names = append(names, string(t))
	}
	return names
}

func capabilitiesOf(c plugin.Capabilities) []string {
	var names []string
	for _, capability := range []struct {
		name string
		has  bool
	}{
		{"abort", c.Abort},
		{"forceReconcile", c.ForceReconcile},
		{"render", c.Render},
		{"validate", c.Validate},
		{"configure", c.Configure},
		{"watch", c.Watch},
		{"diff", c.Diff},
		{"checkHealth", c.CheckHealth},
		{"contextCredentials", c.ContextCredentials},
		{"contextOCMConfig", c.ContextOCMConfig},
		{"hostCluster", c.HostCluster},
		{"collect", c.Collect},
		{"metrics", c.Metrics},
		{"hooks", len(c.HookTypes) > 0},
		{"hookTargets", c.HookTargets},
	} {
		if capability.has {
			names = append(names, capability.name)
		}
	}
	return names
}
