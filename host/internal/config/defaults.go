package config

import (
	"time"
)

// Default is the configuration of a host that is given none. identity is what it calls itself then.
func Default(identity string) *HostConfiguration {
	return &HostConfiguration{
		APIVersion:     APIVersion,
		Kind:           Kind,
		Identity:       identity,
		Workers:        20, // of those that compute; an item that waits holds no worker
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
		MaxPluginCrashes:    3,
		CollectInterval:     Duration{time.Hour},
		ClusterDomain:       "cluster.local",
		ListenAddress:       ":8080",
		Tracing:             Tracing{SampleRatio: 1},
		Verification:        VerificationOff,
		Log:                 Log{Level: "info", Format: "json"},
	}
}
