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
	s.allow("nobody", deployItems)
	s.expect([]itemsCase{
		{"it is there already", "wait good", 0, []string{"good: succeeded\n"}},
		{"it has failed", "wait bad", 1, []string{`NS/bad": Broken: no\x1b[31m`}},
		{"one of them has failed", "wait good bad", 1, []string{"good: succeeded\n", "Broken"}},
		{"a failure is an end", "wait bad --for finished", 0, []string{"bad: finished\n"}},
		{"it takes too long", "wait new --timeout=100ms", 3, []string{"is not succeeded", "--timeout", "waits for a job"}},
		{"one failed, another takes too long", "wait new bad --timeout=100ms", 1, []string{"Broken", "is not succeeded"}},
		{"there is none", "wait nobody", 1, []string{"there is no such DeployItem"}},
		{"there is none any more", "wait nobody --for deleted", 0, []string{"nobody: deleted"}},
		{"by label", "wait -l app=good", 0, []string{"good: succeeded\n"}},
		{"no such label", "wait -l app=none", 2, []string{`has the labels "app=none"`}},
		{"nothing is left with the label", "wait -l app=none --for deleted", 0, nil},
		{"a condition", "wait bad --for condition=Stalled", 0, []string{"bad: condition=Stalled\n"}},
		{"no such goal", "wait good --for fun", 2, []string{"--for", "succeeded, finished", `"fun"`}},
		{"nothing to wait for", "wait", 2, []string{"-l"}},
		{"an empty name", "wait ", 2, []string{"is empty"}},
		{"names and labels", "wait good -l a=b", 2, []string{`"good"`, `"a=b"`}},
		{"no rights", "wait good --kubeconfig " + s.as("nobody"), 2, []string{"forbidden", "your own rights"}},
	}...)
}

// TestItemsWaitTells: what an item waits for is told when it changes, and the wait ends with it.
func TestItemsWaitTells(t *testing.T) {
	s := newShop(t)
	s.item("web", setJob("job-1"))
	s.item("other")
	up, down := s.start("wait", "web"), s.start("wait", "web", "other", "--for", "deleted")
	up.until("web: no phase yet: the job is not picked up yet\n")
	s.take("other", setJob("job-1"))
	s.take("web", beginJob, waitFor("Available: 1/3"))
	up.until("web: Progressing: Available: 1/3\n")
	s.take("web", waitFor("Available: 2/3"))
	up.until("web: Progressing: Available: 2/3\n")
	s.take("web", succeed)
	out, code, err := up.wait()
	if code != 0 || !strings.HasSuffix(out, "web: succeeded\n") || strings.Contains(out, "other") ||
		strings.Count(out, "1/3") != 1 {
		t.Errorf("expected each change once and no error, but found %d, %v:\n%s", code, err, out)
	}
	s.remove("web")
	s.remove("other")
	if out, code, err := down.wait(); code != 0 {
		t.Errorf("expected both to be gone, but found %d, %v:\n%s", code, err, out)
	}
}
