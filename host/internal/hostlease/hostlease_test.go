package hostlease

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Rule (host-configuration.md#namespaces): `items list` names the namespaces of the running hosts, unless one of them
// serves all.
func TestHosts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	lease := func(holder string, age time.Duration, namespaces ...string) coordinationv1.Lease {
		l := coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: &metav1.MicroTime{Time: now.Add(-age)},
		}}
		l.Namespace, l.Name = "hosts", holder
		NoteNamespaces(&l, namespaces)
		return l
	}
	type leases []coordinationv1.Lease
	for name, test := range map[string]struct {
		leases  leases
		running bool
		last    string
		some    []string
	}{
		"no host":         {},
		"a host for some": {leases{lease("a", 0, "tools", "shop")}, true, "hosts/a", []string{"shop", "tools"}},
		"two of one installation": {
			leases{lease("a", 1, "tools", "shop"), lease("b", 0, "shop", "tools")}, true, "hosts/b", []string{"shop", "tools"},
		},
		"beside a host of all":  {leases{lease("a", 0, "shop"), lease("b", 1)}, true, "hosts/a", nil},
		"beside a dead host":    {leases{lease("a", 0, "shop"), lease("b", time.Minute)}, true, "hosts/a", []string{"shop"}},
		"beside a stopped host": {leases{lease("a", 1, "shop"), lease("", 0)}, true, "hosts/", []string{"shop"}},
		"dead hosts alone":      {leases{lease("a", time.Minute, "shop"), lease("b", time.Hour)}, false, "hosts/a", nil},
	} {
		got := hostsOf(test.leases, now)
		got.Renewed = time.Time{}
		if diff := cmp.Diff(Hosts{test.running, test.some, test.last, time.Time{}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUnserved(t *testing.T) {
	t.Parallel()
	hosts := Hosts{Running: true, Namespaces: []string{"shop", "tools"}}
	const want = "No host serves the DeployItems of a, b: the running hosts are for the namespaces shop, tools alone.\n"
	if got := hosts.Unserved([]string{"b", "shop", "a", "b"}); got != want {
		t.Errorf("expected %q, but found %q", want, got)
	}
	for name, line := range map[string]string{
		"served": hosts.Unserved([]string{"shop", "shop"}), "a host of all": Hosts{Running: true}.Unserved([]string{"a"}),
		"no host": Hosts{}.Unserved([]string{"a"}),
	} {
		if line != "" {
			t.Errorf("%s: found %q", name, line)
		}
	}
}
