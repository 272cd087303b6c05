package host

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

func TestLocking(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		pod     pod
		locking config.Locking
		want    bool
		wantErr string
	}{
		{reason: "a pod that knows itself may have replicas", pod: pod{"a", "ns"}, locking: config.LockingAuto, want: true},
		{reason: "outside of a pod there is one host", locking: config.LockingAuto},
		{reason: "without its namespace a pod cannot find the others", pod: pod{name: "a"}, locking: config.LockingAuto},
		{reason: "without its name a pod cannot hold a lock", pod: pod{namespace: "ns"}, locking: config.LockingAuto},
		{reason: "off is off", pod: pod{"a", "ns"}, locking: config.LockingOff},
		{reason: "on is on", pod: pod{"a", "ns"}, locking: config.LockingOn, want: true},
		{
			reason: "who demands locks does not go without them", pod: pod{name: "a"}, locking: config.LockingOn,
			wantErr: "MY_POD_NAMESPACE",
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := tc.pod.locks(tc.locking)
			if got != tc.want || (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: expected %t and an error with %q, but found %t and %v", tc.reason, tc.want, tc.wantErr, got, err)
			}
		})
	}
}
