package cluster

import (
	"slices"
	"testing"
)

func TestLackingPrivileges(t *testing.T) {
	for _, c := range []struct {
		reason, status string
		want           []string
		fails          bool
	}{
		{reason: "root of the machine", status: "CapPrm:\t0\nCapEff:\t000001ffffffffff\n"},
		{reason: "root of a container that is not privileged", status: "CapEff:\t00000000a80425fb\n", want: []string{"CAP_NET_ADMIN", "CAP_SYS_ADMIN"}},
		{reason: "one is not enough", status: "CapEff:\t0000000000001000\n", want: []string{"CAP_SYS_ADMIN"}},
		{reason: "no number", status: "CapEff:\tall\n", fails: true},
		{reason: "no capabilities at all", status: "Name:\tcluster\n", fails: true},
	} {
		got, err := lackingPrivileges(c.status)
		if !slices.Equal(got, c.want) || (err != nil) != c.fails {
			t.Errorf("%s: lackingPrivileges = %v, %v, want %v", c.reason, got, err, c.want)
		}
	}
}
