package main

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestItemsList(t *testing.T) {
	s := newShop(t)
	s.item("new")
	s.item("busy", setJob("job-1"), beginJob, waitFor("Deployment shop/web: Available: 1/3"))
	s.item("good", setJob("job-1"), beginJob, succeed)
	s.item("bad", setJob("job-1"), beginJob, failWith("no\x1b[31m"), func(i *v1alpha1.DeployItem) { i.Labels["app"] = "good" })
	other := newShop(t)
	other.item("elsewhere")

	for _, tc := range []struct {
		reason string
		args   []string
		names  []string // of the items that are listed, in their order
		want   []string
	}{
		{
			reason: "all", names: []string{"bad", "busy", "good", "new"},
			want: []string{"NAME", "helm", "Progressing", "running", "Deployment shop/web: Available: 1/3", `Broken: no\x1b[31m`, "there was no job yet"},
		},
		{reason: "by label", args: []string{"-l", "app=good"}, names: []string{"bad", "good"}},
		{reason: "by phase, whatever its letters are", args: []string{"--phase", "failed,Progressing"}, names: []string{"bad", "busy"}},
		{reason: "without a phase", args: []string{"--phase", "none"}, names: []string{"new"}},
		{reason: "by type", args: []string{"--type", "helm"}, names: []string{"bad", "busy", "good", "new"}},
		{reason: "by another type", args: []string{"--type", "example.org/other"}, want: []string{"There are no such DeployItems."}},
		{reason: "wide", args: []string{"-o", "wide", "-l", "app=busy"}, names: []string{"busy"}, want: []string{"job-1", "helm v1 of pergola-0"}},
		{reason: "another namespace", args: []string{"-n", other.namespace}, names: []string{"elsewhere"}},
		{reason: "all namespaces", args: []string{"-A", "-l", "app in (new,elsewhere)"}, names: []string{"elsewhere", "new"}, want: []string{"NAMESPACE", s.namespace, other.namespace}},
	} {
		out, code, err := s.run(append([]string{"list"}, tc.args...)...)
		if code != 0 {
			t.Errorf("%s: found the exit code %d: %v", tc.reason, code, err)
		}
		var names []string
		for line := range strings.Lines(out) {
			for _, field := range strings.Fields(line)[:2] {
				if slices.Contains([]string{"new", "busy", "good", "bad", "elsewhere"}, field) {
					names = append(names, field)
					break
				}
			}
		}
		if slices.Sort(names); !slices.Equal(names, tc.names) {
			t.Errorf("%s: expected %v, but found %v in\n%s", tc.reason, tc.names, names, out)
		}
		for _, text := range tc.want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: expected %q in\n%s", tc.reason, text, out)
			}
		}
	}
}

func TestItemsListFormats(t *testing.T) {
	s := newShop(t)
	s.item("good", setJob("job-1"), beginJob, succeed)
	out, _, err := s.run("list", "-o", "name")
	if err != nil || out != "deployitem.landscaper.gardener.cloud/good\n" {
		t.Errorf("expected what kubectl takes, but found %q, %v", out, err)
	}
	for _, format := range []string{"json", "yaml"} {
		out, _, err := s.run("list", "-o", format)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "t0ps3cret") {
			t.Errorf("expected nothing of the configuration, but found %s", out)
		}
		var document v1alpha1.DeployItemList
		decodeYAML(t, out, &document)
		if len(document.Items) != 1 || document.Items[0].Name != "good" || document.Items[0].Status.JobID != "job-1" {
			t.Errorf("%s: expected the item, but found %+v", format, document)
		}
	}
}

// TestItemsListWatch: each change is a line.
func TestItemsListWatch(t *testing.T) {
	s := newShop(t)
	s.item("first")
	lines := s.start("list", "--watch", "--phase", "none,Succeeded")
	lines.until("first")

	s.item("second")
	lines.until("second")
	s.take("first", setJob("job-1"), beginJob, waitFor("a miracle"))
	lines.until("a miracle") // it is told why it is not in the list any more
	s.take("first", succeed)
	lines.until("Succeeded")
	s.release("second")
	lines.until("(gone)")

	lines.end()
	if out, code, err := lines.wait(); code != 0 || strings.Count(out, "NAME") != 1 {
		t.Errorf("expected one header and no error, but found %d, %v:\n%s", code, err, out)
	}
}

func TestItemsListErrors(t *testing.T) {
	s := newShop(t)
	s.allow("nobody", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"deployitems"}})
	s.allow("lister", rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"deployitems"}})
	nobody := s.as("nobody")
	for _, tc := range []struct {
		reason string
		args   []string
		want   []string
	}{
		{reason: "no rights", args: []string{"--kubeconfig", nobody}, want: []string{"forbidden", `"nobody"`, "your own rights"}},
		{reason: "no rights to watch", args: []string{"--kubeconfig", s.as("lister"), "--watch"}, want: []string{"forbidden", "your own rights"}},
		{reason: "no such selector", args: []string{"-l", "a=b=c"}, want: []string{"--selector"}},
		{reason: "no definitions", args: []string{"--kubeconfig", withoutCRDs(t)}, want: []string{"pergola crds"}},
	} {
		_, code, err := s.run(append([]string{"list"}, tc.args...)...)
		if code != exitFailure {
			t.Errorf("%s: expected the exit code %d, but found %d", tc.reason, exitFailure, code)
		}
		for _, text := range tc.want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: expected %q, but found: %v", tc.reason, text, err)
			}
		}
	}
}
