package main

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestItemsWait(t *testing.T) {
	s := newShop(t)
	s.item("good", setJob("job-1"), beginJob, succeed)
	s.item("bad", setJob("job-1"), beginJob, failWith("no\x1b[31m"))
	s.item("new")
	s.allow("nobody", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"deployitems"}})
	const at = "--timeout=100ms"
	for _, tc := range []struct {
		reason string
		args   []string
		code   int
		want   []string // of the output and the error
	}{
		{reason: "it is there already", args: []string{"good"}, want: []string{"good: succeeded\n"}},
		{reason: "it has failed", args: []string{"bad"}, code: exitNo, want: []string{s.namespace + `/bad": Broken: no\x1b[31m`}},
		{reason: "one of them has failed, which is known after the other", args: []string{"good", "bad"}, code: exitNo, want: []string{"good: succeeded\n", "Broken"}},
		{reason: "a failure is an end", args: []string{"bad", "--for", "finished"}, want: []string{"bad: finished\n"}},
		{reason: "it takes too long", args: []string{"new", at}, code: exitTimeout, want: []string{"is not succeeded", "--timeout", "waits for a job"}},
		{reason: "one failed, another takes too long", args: []string{"new", "bad", at}, code: exitNo, want: []string{"Broken", "is not succeeded"}},
		{reason: "there is none", args: []string{"nobody"}, code: exitNo, want: []string{"there is no such DeployItem"}},
		{reason: "there is none any more", args: []string{"nobody", "--for", "deleted"}, want: []string{"nobody: deleted"}},
		{reason: "by label", args: []string{"-l", "app=good"}, want: []string{"good: succeeded\n"}},
		{reason: "no such label", args: []string{"-l", "app=none"}, code: exitFailure, want: []string{`has the labels "app=none"`}},
		{reason: "nothing is left with the label", args: []string{"-l", "app=none", "--for", "deleted"}},
		{reason: "a condition", args: []string{"bad", "--for", "condition=Stalled"}, want: []string{"bad: condition=Stalled\n"}},
		{reason: "no such goal", args: []string{"good", "--for", "fun"}, code: exitFailure, want: []string{"--for", "succeeded, finished", `"fun"`}},
		{reason: "nothing to wait for", code: exitFailure, want: []string{"-l"}},
		{reason: "an empty name", args: []string{""}, code: exitFailure, want: []string{"is empty"}},
		{reason: "names and labels", args: []string{"good", "-l", "a=b"}, code: exitFailure, want: []string{`"good"`, `"a=b"`}},
		{reason: "no rights", args: []string{"good", "--kubeconfig", s.as("nobody")}, code: exitFailure, want: []string{"forbidden", "your own rights"}},
	} {
		out, code, err := s.run(append([]string{"wait"}, tc.args...)...)
		if code != tc.code {
			t.Errorf("%s: expected the exit code %d, but found %d: %v", tc.reason, tc.code, code, err)
		}
		if err != nil {
			out += err.Error()
		}
		for _, text := range tc.want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: expected %q in %s", tc.reason, text, out)
			}
		}
	}
}

// TestItemsWaitTells: what an item waits for is told when it changes, and the wait ends with it.
func TestItemsWaitTells(t *testing.T) {
	s := newShop(t)
	s.item("web", setJob("job-1"))
	s.item("other")
	up, down := s.start("wait", "web"), s.start("wait", "web", "other", "--for", "deleted")
	up.until("web: no phase yet: nobody has picked up the job yet\n")
	s.take("other", setJob("job-1"))
	s.take("web", beginJob, waitFor("Available: 1/3"))
	up.until("web: Progressing: Available: 1/3\n")
	s.take("web", waitFor("Available: 2/3"))
	up.until("web: Progressing: Available: 2/3\n")
	s.take("web", succeed)
	out, code, err := up.wait()
	if code != 0 || !strings.HasSuffix(out, "web: succeeded\n") || strings.Contains(out, "other") || strings.Count(out, "1/3") != 1 {
		t.Errorf("expected each change once and no error, but found %d, %v:\n%s", code, err, out)
	}
	s.release("web")
	s.release("other")
	if out, code, err := down.wait(); code != 0 {
		t.Errorf("expected both to be gone, but found %d, %v:\n%s", code, err, out)
	}
}
