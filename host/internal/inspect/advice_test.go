package inspect

import (
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestRemediesAreOfReasons: a reason that nothing reports has no remedy, and none has two.
func TestRemediesAreOfReasons(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, remedy := range remedies {
		for _, reason := range remedy.reasons {
			if seen[reason] || !strings.Contains(string(page), "`"+reason+"`") {
				t.Errorf("the reason %s is not on the page, or has two remedies", reason)
			}
			seen[reason] = true
		}
	}
}

// Rule (deploy-items.md#view): An item that waits for a host says that none is running, or since when none has taken it
// up.
func TestHostless(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := created.Add(5 * time.Minute)
	none, running := &hostlease.Hosts{}, &hostlease.Hosts{Running: true, Last: "kube-system/a", Renewed: now}
	dead := &hostlease.Hosts{Last: "kube-system/a", Renewed: created.Add(time.Minute)}
	deployer := v1alpha1.DeployerInformation{Identity: "pergola-0", Name: "helm", Version: "v1"}
	set := func(i *v1alpha1.DeployItem) { contract.SetJob(i, "job", created.Add(time.Minute)) }
	begun := func(i *v1alpha1.DeployItem) {
		set(i)
		contract.Begin(i, false, deployer, created.Add(time.Minute))
	}
	done := func(i *v1alpha1.DeployItem) {
		begun(i)
		contract.Succeed(i, created.Add(time.Minute))
	}
	deleted := func(i *v1alpha1.DeployItem) {
		done(i)
		i.Generation, i.DeletionTimestamp = 2, &metav1.Time{Time: created.Add(3 * time.Minute)}
	}
	unserved := func(i *v1alpha1.DeployItem) { contract.SetUnserved(i, "no plugin here", created) }
	for _, tc := range []struct {
		reason string
		life   func(*v1alpha1.DeployItem)
		hosts  *hostlease.Hosts
		want   string // the beginning; empty for nothing
	}{
		{"a new item", func(*v1alpha1.DeployItem) {}, none, "no host has a Lease in this cluster: "},
		{"a set job", set, dead, "no host is running: the last Lease, kube-system/a, was renewed 4m ago"},
		{"a job of a host that is gone", begun, dead, "no host is running: "},
		{"a job of a host with its Pods in another cluster", begun, none, ""},
		{"a deletion", deleted, dead, "no host is running: "},
		{"a host may do it yet", set, running, ""},
		{"all is done", done, none, ""},
		{"a host has said more", unserved, none, ""},
		{"no rights for Leases", set, nil, "no host has taken this up for 4m; you may not list the Leases"},
		{"a deletion without rights for Leases", deleted, nil, "no host has taken this up for 2m"},
		{"taken up", begun, nil, ""},
	} {
		item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{
			Generation: 1, CreationTimestamp: metav1.Time{Time: created},
		}}
		tc.life(item)
		got := Hostless(item, tc.hosts, now)
		if !strings.HasPrefix(got, tc.want) || (got != "") != (tc.want != "") {
			t.Errorf("%s: expected %q, but found %q", tc.reason, tc.want, got)
		}
	}
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: created}}}
	if got := Hostless(item, nil, created.Add(takeUp-1)); got != "" {
		t.Errorf("a host has had no time to take the item up: %q", got)
	}
}
