package config

import (
	"time"
)

// Default is the configuration of a host without a document. identity is its name then.
func Default(identity string) *HostConfiguration {
	return &HostConfiguration{
		APIVersion: APIVersion,
		Kind:       Kind,
		Identity:   identity,
		// Only calls count; an item that waits holds no worker.
		Workers:        20,
		Locking:        LockingAuto,
		KeepReferences: KeepAuto,
		Timeouts: Timeouts{
			Pickup:        "5m",
			Progressing:   "1m",
			Abort:         Duration{5 * time.Minute},
			PluginStart:   Duration{30 * time.Second},
			PluginSilence: Duration{30 * time.Second},
			Hook:          Duration{10 * time.Second},
			Shutdown:      Duration{30 * time.Second},
			Lease:         Duration{15 * time.Second},
		},
		ContinuousReconcile: ContinuousReconcile{MinimumInterval: Duration{10 * time.Second}},
		Retries:             Retries{First: "1m", Longest: Duration{time.Hour}},
		MaxPluginCrashes:    3,
		CollectInterval:     Duration{time.Hour},
		ClusterDomain:       "cluster.local",
		ListenAddress:       ":8080",
		Tracing:             Tracing{SampleRatio: 1},
		Verification:        VerificationOff,
		Log:                 Log{Level: "info", Format: "json"},
	}
}
