package items

import (
	"strings"
	"testing"
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
		{"no such label", "wait -l app=none", 2, []string{`has the labels "app=none"`}},
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
