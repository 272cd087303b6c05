package lock

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestHosts: all hosts with a Lease are found, with locks or without, until they end or do not renew it any more.
func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		find := func(running bool, last string) {
			t.Helper()
			found, err := hostlease.Find(t.Context(), w.server, time.Now())
			if err != nil || found.Running != running || found.Last != last {
				t.Errorf("expected %t with the Lease %q, but found %+v, %v", running, last, found, err)
			}
		}
		find(false, "")
		w.pod("a")
		stop := w.replica("a").run()
		passTime(time.Second)
		find(true, namespace+"/a")
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		find(false, namespace+"/a")
	})
	synctest.Test(t, func(t *testing.T) {
		api, err := testenv.FakeClient()
		if err != nil {
			t.Fatal(err)
		}
		single := runSingle(api)
		defer single.stop()
		find := func(at time.Time) hostlease.Hosts {
			found, err := hostlease.Find(t.Context(), api, at)
			if err != nil || !strings.Contains(found.Last, "standalone") {
				t.Fatalf("expected the Lease of standalone hosts, but found %+v, %v", found, err)
			}
			return found
		}
		if !find(time.Now()).Running || find(time.Now().Add(leaseDuration)).Running {
			t.Error("expected a host until its Lease expires")
		}
	})
}
