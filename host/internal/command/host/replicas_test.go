package host

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/config"
)

func TestLocking(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		reason  string
		pod     pod
		locking config.Locking
		want    bool
		err     string
	}{
		{"a pod with both variables may have replicas", pod{"a", "ns"}, config.LockingAuto, true, ""},
		{"outside of a pod there is one host", pod{}, config.LockingAuto, false, ""},
		{"without its namespace a pod cannot find the others", pod{name: "a"}, config.LockingAuto, false, ""},
		{"without its name a pod cannot hold a lock", pod{namespace: "ns"}, config.LockingAuto, false, ""},
		{"off is off", pod{"a", "ns"}, config.LockingOff, false, ""},
		{"on is on", pod{"a", "ns"}, config.LockingOn, true, ""},
		{"on is an error without the variables", pod{name: "a"}, config.LockingOn, false, "MY_POD_NAMESPACE"},
	} {
		got, err := tc.pod.locks(tc.locking)
		if got != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: expected %t and an error with %q, but found %t and %v", tc.reason, tc.want, tc.err, got, err)
		}
	}
}
