package items

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestItemsWait(t *testing.T) {
	s := newShop(t)
	s.item("good", setJob("job-1"), beginJob, succeed)
	s.item("bad", setJob("job-1"), beginJob, failWith("no\x1b[31m"))
	s.item("new")
	s.expect([]itemsCase{
		{"one has failed", "wait good bad", 1, []string{"good: succeeded\n", `NS/bad": Broken: no\x1b[31m`}},
		{"it takes too long", "wait new --timeout=100ms", 3, []string{"is not succeeded", "--timeout", "waits for a job"}},
		{"one failed, another takes too long", "wait new bad --timeout=100ms", 1, []string{"Broken", "is not succeeded"}},
		{"there is none", "wait nobody", 1, []string{"there is no such DeployItem"}},
		{"there is none any more", "wait nobody --for deleted", 0, []string{"nobody: deleted"}},
		{"by label", "wait -l app=good", 0, []string{"good: succeeded\n"}},
		{"no such label", "wait -l app=none", 2, []string{`with the labels "app=none"`}},
		{"all, and one of them has no job", "wait --all --timeout=100ms", 1, []string{
			"good: succeeded\n", `NS/bad": Broken`, `NS/new" is not succeeded within --timeout; last: waits for a job`,
		}},
		{"names and all", "wait good --all", 2, []string{"--all"}},
		{"names in all namespaces", "wait good -A", 2, []string{"-A"}},
		{"nothing is left with the label", "wait -l app=none --for deleted", 0, nil},
		{"another goal", "wait bad --for condition=Stalled", 0, []string{"bad: condition=Stalled\n"}},
		{"no such goal", "wait good --for fun", 2, []string{"--for", "succeeded, finished", `"fun"`}},
		{"nothing to wait for", "wait", 2, []string{"-l"}},
		{"an empty name", "wait ", 2, []string{"is empty"}},
		{"names and labels", "wait good -l a=b", 2, []string{`"good"`, `"a=b"`}},
		{"no such selector", "wait -l a=b=c", 2, []string{"--selector"}},
		{"no rights", "wait good --kubeconfig " + s.as("guest"), 2, []string{"forbidden", `"guest"`, "your own rights"}},
		{"no rights for labels", "wait -l a=b --kubeconfig " + s.as("guest"), 2, []string{"list DeployItems", "forbidden"}},
	}...)
}

// TestItemsWaitForAll waits for the items of two namespaces.
// Rule (deploy-items.md#wait): `--all` waits for all items of the namespace, with `-A` of all namespaces.
func TestItemsWaitForAll(t *testing.T) {
	s, other := newShop(t), newShop(t)
	labelled := func(i *v1alpha1.DeployItem) { i.Labels["shop"] = s.namespace }
	s.item("good", labelled, setJob("job-1"), beginJob, succeed)
	late := other.item("late", labelled)
	if late.Status.ObservedGeneration != -1 {
		t.Errorf("expected an item without a job to have the default of the definition, but found %d",
			late.Status.ObservedGeneration)
	}
	s.expect([]itemsCase{
		{"all of the namespace", "wait --all", 0, []string{"good: succeeded\n", "!late"}},
		{"none in the namespace", "wait --all -n elsewhere", 2, []string{`no DeployItem in the namespace "elsewhere"`}},
		{"a label in no namespace", "wait -A -l shop=none", 2, []string{`in any namespace with the labels "shop=none"`}},
	}...)
	all := s.start("wait", "-A", "-l", "shop="+s.namespace)
	all.until(other.namespace + "/late: waits for a job")
	other.take("late", setJob("job-1"), beginJob, succeed)
	if out, code, err := all.wait(); code != 0 || !strings.Contains(out, other.namespace+"/late: succeeded\n") ||
		!strings.Contains(out, s.namespace+"/good: succeeded\n") {
		t.Errorf("expected success with both items, but found %d, %v:\n%s", code, err, out)
	}
}

// TestItemsWaitForDeletions: the wait ends with the last deletion.
func TestItemsWaitForDeletions(t *testing.T) {
	s := newShop(t)
	s.item("web")
	s.item("other")
	down := s.start("wait", "web", "other", "--for", "deleted")
	down.until("other: waits for a request to delete it")
	s.remove("web")
	s.remove("other")
	if out, code, err := down.wait(); code != 0 || !strings.HasSuffix(out, "other: deleted\nweb: deleted\n") {
		t.Errorf("expected both to be gone, but found %d, %v:\n%s", code, err, out)
	}
}

// TestWaitWithoutHost: a wait says at its begin and after its timeout that no host is running, and not in between, when
// one may have been started.
func TestWaitWithoutHost(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid", Generation: 1}}
	a := &awaited{key: client.ObjectKey{Name: "web"}, goal: inspect.Succeeded}
	w := &waiter{Cluster: &usercluster.Cluster{}, stderr: &out, items: []*awaited{a}, hosts: &hostlease.Hosts{}}
	w.see(a, item)
	item = item.DeepCopy()
	setJob("job-1")(item)
	w.see(a, item)
	const begin, between = "web: waits for a job for its generation 1; no host has a Lease in this cluster: ",
		"\nweb: no phase yet: the job is not picked up yet\n"
	if err := w.conclude(); !strings.HasPrefix(out.String(), begin) || !strings.HasSuffix(out.String(), between) ||
		!strings.Contains(err.Error(), "not picked up yet; no host has a Lease") {
		t.Errorf("found %v after %s", err, out.String())
	}
}
