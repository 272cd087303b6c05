package fleet_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/fleet"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	helm := func(version, sum string) control.Plugin {
		return control.Plugin{File: "helm", Version: version, SHA256: sum}
	}
	mock := control.Plugin{File: "mock", Version: "v1", SHA256: "0123456789abcdef"}
	answer := func(name string, plugins ...control.Plugin) fleet.Replica {
		return fleet.Replica{Name: name, Answered: true, Plugins: plugins}
	}
	of := func(component string, r fleet.Replica) fleet.Replica {
		r.Component = component
		return r
	}
	for _, tc := range []struct {
		reason   string
		replicas []fleet.Replica
		want     []string
	}{
		{reason: "nobody is there"},
		{reason: "one is like itself", replicas: []fleet.Replica{answer("a", mock)}},
		{reason: "all the same", replicas: []fleet.Replica{answer("b", mock, helm("v1", "1")), answer("a", helm("v1", "1"), mock)}},
		{
			reason:   "one has another version, and one that is silent is no difference",
			replicas: []fleet.Replica{answer("a", helm("v1", "1")), answer("c", helm("v2", "2")), answer("b", helm("v1", "1")), {Name: "d", Problem: "its pod is Pending"}},
			want:     []string{"helm: found v2 with the checksum 2 in c, but v1 with the checksum 1 in a, b"},
		},
		{
			reason:   "the same version is not the same program",
			replicas: []fleet.Replica{answer("a", helm("v1", "1")), answer("b", helm("v1", "2")), answer("c", helm("v1", "1"))},
			want:     []string{"helm: found v1 with the checksum 2 in b, but v1 with the checksum 1 in a, c"},
		},
		{
			reason:   "one lacks it",
			replicas: []fleet.Replica{answer("a", mock), answer("b"), answer("c", mock)},
			want:     []string{"mock: found none in b, but v1 with the checksum 0123456789ab in a, c"},
		},
		{
			reason: "each Deployment has plugins of its own, and its replicas are to have the same",
			replicas: []fleet.Replica{
				of("helm", answer("a", helm("v1", "1"))), of("helm", answer("b", helm("v1", "1"))), of("mock", answer("c", mock)), of("mock", answer("d", mock)), of("mock", answer("e")),
			},
			want: []string{"mock: found none in e, but v1 with the checksum 0123456789ab in c, d"},
		},
	} {
		if diff := cmp.Diff(tc.want, fleet.NewList(tc.replicas).Differences); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
	list := fleet.NewList([]fleet.Replica{{Name: "b"}, answer("a")})
	if list.Replicas[0].Name != "a" || list.Unanswered() != 1 {
		t.Errorf("expected the order of names and one that has not answered, but found %+v", list)
	}
}
