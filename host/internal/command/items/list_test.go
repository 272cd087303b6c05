package items

import (
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const deployItems = "deployitems." + v1alpha1.GroupName

func TestItemsList(t *testing.T) {
	s := newShop(t)
	labelled := func(i *v1alpha1.DeployItem) { i.Labels["shop"] = s.namespace }
	s.item("new", labelled)
	s.item("busy", setJob("job-1"), beginJob, waitFor("Deployment shop/web: Available: 1/3"))
	s.item("good", setJob("job-1"), beginJob, succeed)
	asGood := func(i *v1alpha1.DeployItem) { i.Labels["app"] = "good" }
	s.item("bad", setJob("job-1"), beginJob, failWith("no\x1b[31m"), asGood)
	other := newShop(t)
	other.item("elsewhere", labelled)
	s.expect([]itemsCase{
		{"by label", "list -l app=good", 0, []string{"bad ", "good ", "!busy", "!new "}},
		{"by phase, in any case", "list --phase failed,Progressing", 0, []string{"bad ", "busy ", "!good", "!new "}},
		{"without a phase", "list --phase none", 0, []string{"new ", "!bad ", "!busy", "!good"}},
		{"by type", "list --type helm", 0, []string{"bad ", "busy ", "good ", "new "}},
		{"by another type", "list --type example.org/other", 0, []string{"There are no such DeployItems.", "!new "}},
		{"another namespace", "list -n " + other.namespace, 0, []string{"elsewhere", "!new "}},
		{"all namespaces", "list -A -l shop=NS", 0, []string{
			"NAMESPACE", "NS ", other.namespace, "elsewhere", "new ", "!busy",
		}},
		{"names for kubectl", "list -o name -l app=busy", 0, []string{
			"deployitem.landscaper.gardener.cloud/busy\n", "!NAME",
		}},
		{"JSON", "list -o json -l app=busy", 0, []string{`"kind": "DeployItemList"`, `"jobID": "job-1"`, "!new"}},
		{"YAML", "list -o yaml -l app=busy", 0, []string{"kind: DeployItemList\n", "jobID: job-1\n", "!new"}},
		{"a table", "list", 0, []string{
			"NAME", "helm", "Progressing", "running", "Deployment shop/web: Available: 1/3", `Broken: no\x1b[31m`,
			"there was no job yet", "!elsewhere", "!job-1", "!NAMESPACE",
		}},
		{"wide", "list -o wide -l app=busy", 0, []string{"job-1", "helm v1 of pergola-0"}},
		{"no rights to watch", "list --watch --kubeconfig " + s.allow("lister", "list", deployItems), 2, []string{
			"forbidden", `"lister"`, "your own rights",
		}},
		{"no such selector", "list -l a=b=c", 2, []string{"--selector"}},
		{"no definitions", "list --kubeconfig " + commandtest.WithoutDefinitions(t), 2, []string{"pergola crds"}},
	}...)
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
	lines.until("a miracle") // why it leaves the list
	s.take("first", succeed)
	lines.until("Succeeded")
	s.remove("second")
	lines.until("(gone)")

	lines.end()
	if out, code, err := lines.wait(); code != 0 || strings.Count(out, "NAME") != 1 {
		t.Errorf("expected one header and no error, but found %d, %v:\n%s", code, err, out)
	}
}
