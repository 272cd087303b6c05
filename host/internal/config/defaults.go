package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Default is the configuration of a host that is given none. identity is what it calls itself then.
func Default(identity string) *HostConfiguration {
	return &HostConfiguration{
		APIVersion: APIVersion,
		Kind:       Kind,
		Identity:   identity,
		Workers:    20, // of those that compute; an item that waits holds no worker
		Locking:    LockingAuto,
		Timeouts: Timeouts{
			Pickup:        "5m",
			Progressing:   "1m",
			Abort:         metav1.Duration{Duration: 5 * time.Minute},
			PluginStart:   metav1.Duration{Duration: 30 * time.Second},
			PluginStop:    metav1.Duration{Duration: 5 * time.Second},
			PluginSilence: metav1.Duration{Duration: 30 * time.Second},
			Hook:          metav1.Duration{Duration: 10 * time.Second},
			Shutdown:      metav1.Duration{Duration: 30 * time.Second},
			Lease:         metav1.Duration{Duration: 15 * time.Second},
		},
		ContinuousReconcile: ContinuousReconcile{MinimumInterval: metav1.Duration{Duration: 10 * time.Second}},
		MaxPluginCrashes:    3,
		CollectInterval:     metav1.Duration{Duration: time.Hour},
		ClusterDomain:       "cluster.local",
		ListenAddress:       ":8080",
		Tracing:             Tracing{SampleRatio: 1},
		Verification:        VerificationOff,
		Log:                 Log{Level: "info", Format: "json"},
	}
}
