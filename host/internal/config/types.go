package config

import (
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The type of a document.
const (
	// APIVersion of a HostConfiguration.
	APIVersion = "host.pergola.dev/v1alpha1"
	// Kind of a HostConfiguration.
	Kind = "HostConfiguration"
)

// HostConfiguration has the settings of the host. Default holds the value of each absent field.
type HostConfiguration struct {
	// APIVersion is the constant of that name.
	APIVersion string `json:"apiVersion"`
	// Kind is the constant of that name.
	Kind string `json:"kind"`
	// Identity of this installation in the status of DeployItems. Defaults to the name of the pod, or of the machine.
	Identity string `json:"identity"`
	// Namespaces are the only ones with DeployItems of the host. It needs no rights to those of others. Empty, the
	// default, for all.
	Namespaces []string `json:"namespaces,omitempty"`
	// TargetSelectors select the DeployItems of the host by their Targets: one of the selectors matches, or there is no
	// target. Empty, the default, for all.
	TargetSelectors []v1alpha1.TargetSelector `json:"targetSelectors,omitempty"`
	// TargetServiceAccount is the ServiceAccount for each Target with a selfConfig or an oidcConfig, in the Target's
	// own namespace. A Target may leave it out then, and another name is refused. Empty, the default, if each names its
	// own.
	TargetServiceAccount string `json:"targetServiceAccount"`
	// Workers is how many calls of one plugin are made at the same time. Defaults to 20.
	Workers int `json:"workers"`
	// Locking decides whether a DeployItem is worked on under a lock, so that replicas share the work. Defaults to
	// LockingAuto.
	Locking Locking `json:"locking"`
	// KeepReferences decides whether Targets, Contexts and their Secrets get a finalizer, so that they stay until the
	// deletion of their DeployItems is done. Defaults to KeepAuto.
	KeepReferences KeepReferences `json:"keepReferences"`
	// LockPrefix is put in front of a plugin's name in the names of locks, "<lockPrefix><plugin>-<uid>". Installations
	// with the same names of locks must run in the same namespace of the same cluster. Defaults to nothing.
	LockPrefix string `json:"lockPrefix"`
	// Timeouts of the host.
	Timeouts Timeouts `json:"timeouts"`
	// ContinuousReconcile bounds the jobs started by hooks.
	ContinuousReconcile ContinuousReconcile `json:"continuousReconcile"`
	// Retries are the jobs after failed ones. They are in force in standalone mode, otherwise Landscaper sets the jobs.
	Retries Retries `json:"retries"`
	// MaxPluginCrashes is how often a plugin may die in calls for one job before the job fails, 1 to 100, so that the
	// plugin stays there for other items. Defaults to 3.
	MaxPluginCrashes int `json:"maxPluginCrashes"`
	// CollectInterval is the pause, give or take a tenth, between two rounds of collecting obsolete holdings of plugins
	// outside of their DeployItems' targets, 1m to 24h. Plugins are asked soon after a DeployItem has gone, too.
	// Defaults to 1h.
	CollectInterval Duration `json:"collectInterval"`
	// Client of the API server.
	Client Client `json:"client"`
	// ClusterDomain is the domain of the Services of the cluster with the DeployItems, as in
	// "<name>.<namespace>.svc.<domain>". Defaults to "cluster.local".
	ClusterDomain string `json:"clusterDomain"`
	// ListenAddress is where /healthz, /readyz and /metrics are served. Defaults to ":8080".
	ListenAddress string `json:"listenAddress"`
	// PprofAddress serves profiles of the host, such as "127.0.0.1:6060"; a loopback address, because profiles are
	// confidential. Empty, the default, for nowhere.
	PprofAddress string `json:"pprofAddress"`
	// Tracing of jobs.
	Tracing Tracing `json:"tracing"`
	// StatusPage is for a look into the host with a browser.
	StatusPage StatusPage `json:"statusPage"`
	// Log of the host and its plugins.
	Log Log `json:"log"`
	// Verification decides about programs without a checksum in Plugins. Defaults to VerificationOff.
	Verification Verification `json:"verification"`
	// PluginFiles are the names of the only files to use of the plugin directory, and of Plugins with an Image. Empty,
	// the default, for all of them. A missing one keeps the host from being ready.
	PluginFiles []string `json:"pluginFiles,omitempty"`
	// PluginCache is the directory for programs taken out of images, for the host alone; it is made if it is missing.
	// Empty, the default, for pergola/plugins in the cache directory of the user.
	PluginCache string `json:"pluginCache"`
	// Plugins by their names. A plugin without an entry works with defaults.
	Plugins map[string]Plugin `json:"plugins,omitempty"`
}

// Locking says whether the replicas of a host hold locks. In a document on and off need no quotes, and true and
// false stand for them.
type Locking string

// The values of a Locking.
const (
	// LockingAuto locks if the host runs in a pod and knows the pod's name and namespace.
	LockingAuto Locking = "auto"
	// LockingOn locks.
	LockingOn Locking = "on"
	// LockingOff does not lock: there is one replica.
	LockingOff Locking = "off"
)

// KeepReferences decides whether the references of DeployItems are kept until the items are gone. In a document on and
// off need no quotes, and true and false stand for them.
type KeepReferences string

// The values of a KeepReferences.
const (
	// KeepAuto keeps it in standalone mode: a Landscaper deletes in order.
	KeepAuto KeepReferences = "auto"
	// KeepOn keeps it.
	KeepOn KeepReferences = "on"
	// KeepOff does not keep them. Existing finalizers are left alone.
	KeepOff KeepReferences = "off"
)

// Timeouts of the host. Those of one item's job are in the item.
type Timeouts struct {
	// Pickup is how long a job may wait for a deployer to pick it up before it fails; "none" for ever. It is in force
	// in standalone mode, otherwise Landscaper sees to it. Defaults to 5m.
	Pickup v1alpha1.Duration `json:"pickup"`
	// Progressing is how long past its own timeout a job may stay unfinished before its deployer counts as dead and
	// the job fails; "none" for ever. It is in force in standalone mode, otherwise Landscaper sees to it. Defaults to
	// 1m.
	Progressing v1alpha1.Duration `json:"progressing"`
	// Abort is how long a deployer may take for the abort of a job. Defaults to 5m.
	Abort Duration `json:"abort"`
	// PluginStart is how long a plugin may take from its start to the handshake. Defaults to 30s.
	PluginStart Duration `json:"pluginStart"`
	// PluginSilence is how long a plugin may answer no health check, or say nothing in a call, before it counts as
	// wedged and is killed and started again, 15s to 1h: a plugin at work reports at least every 10s. Defaults to 30s.
	PluginSilence Duration `json:"pluginSilence"`
	// Hook is how long one call of a plugin's hooks for one DeployItem may take, 1s to 5m. Defaults to 10s.
	Hook Duration `json:"hook"`
	// Shutdown is how long calls under way may take when the host stops, before they are cancelled. Defaults to 30s.
	Shutdown Duration `json:"shutdown"`
	// Lease is how long after its last sign of life a replica counts as dead when its pod is still there, 3s to 1h.
	// Defaults to 15s.
	Lease Duration `json:"lease"`
}

// ContinuousReconcile bounds the jobs started by a ShouldReconcile hook, such as a schedule, and starts jobs of
// DeployItems without one.
type ContinuousReconcile struct {
	// MinimumInterval is the least time between the beginnings of two such jobs of an item, 1s to 24h. Defaults to 10s.
	MinimumInterval Duration `json:"minimumInterval"`
	// Jitter is the longest delay of such a job, 0s to 24h, so that many jobs due at the same time do not begin
	// together. Each item has its own part of it. Defaults to 0s.
	Jitter Duration `json:"jitter"`
	// DefaultInterval is the interval of the jobs of deployed DeployItems without a schedule, in standalone mode and for
	// plugins that compare (capability diff), 1m to 168h. They are spread over it. Zero, the default, for no such jobs.
	DefaultInterval Duration `json:"defaultInterval"`
}

// Retries has the pauses between the jobs of a DeployItem that keeps failing. Each is twice as long as the one before,
// and up to a quarter shorter, so that many do not end together. An error in the DeployItem itself is not retried.
type Retries struct {
	// First is the pause after the first failure, at least 1s; "none" for no further job. Defaults to 1m.
	First v1alpha1.Duration `json:"first"`
	// Longest is the longest pause, from First to 24h. Defaults to 1h.
	Longest Duration `json:"longest"`
}

// Client limits the requests to the API server. Both fields are zero, the default, for no limit: API servers limit
// fairly by themselves, and a limit here only makes jobs slow. Otherwise both are set.
type Client struct {
	// QPS is how many requests are made in a second, in the long run.
	QPS float64 `json:"qps"`
	// Burst is how many requests may be made at once.
	Burst int `json:"burst"`
}

// Limited reports whether there is a limit.
func (c Client) Limited() bool { return c.QPS != 0 || c.Burst != 0 }

// Tracing sends a trace of each job to a collector, by OpenTelemetry's protocol over gRPC.
type Tracing struct {
	// Endpoint of the collector, "<host>:<port>". Empty, the default, for no traces.
	Endpoint string `json:"endpoint"`
	// Insecure sends them without TLS.
	Insecure bool `json:"insecure"`
	// SampleRatio is the traced part of the jobs, above 0 and up to 1. Defaults to 1.
	SampleRatio float64 `json:"sampleRatio"`
}

// StatusPage shows the host to everyone with network access: there is no login.
type StatusPage struct {
	// ListenAddress of the page, such as ":9080". Empty, the default, for nowhere.
	ListenAddress string `json:"listenAddress"`
	// HostNames are additional DNS names of the page, besides IP addresses, localhost, the name of the pod and those of
	// Services in ClusterDomain. Others are refused, so that no foreign page can read this one with its visitor's
	// browser.
	HostNames []string `json:"hostNames,omitempty"`
}

// Log of the host and its plugins.
type Log struct {
	// Level is the lowest level to log: debug, info, warn or error. Defaults to info.
	Level string `json:"level"`
	// Format is json or text. Defaults to json.
	Format string `json:"format"`
}
