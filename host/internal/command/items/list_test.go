package items

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/command/commandtest"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const deployItems = "deployitems." + v1alpha1.GroupName

func decodeYAML(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
}

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

	for _, tc := range []struct {
		reason, command string
		names           string // of the items that are listed, in their order
		want            []string
	}{
		{"all", "list", "bad busy good new", []string{
			"NAME", "helm", "Progressing", "running", "Deployment shop/web: Available: 1/3", `Broken: no\x1b[31m`,
			"there was no job yet",
		}},
		{"by label", "list -l app=good", "bad good", nil},
		{"by phase, whatever its letters are", "list --phase failed,Progressing", "bad busy", nil},
		{"without a phase", "list --phase none", "new", nil},
		{"by type", "list --type helm", "bad busy good new", nil},
		{"by another type", "list --type example.org/other", "", []string{"There are no such DeployItems."}},
		{"wide", "list -o wide -l app=busy", "busy", []string{"job-1", "helm v1 of pergola-0"}},
		{"another namespace", "list -n " + other.namespace, "elsewhere", nil},
		{"all namespaces", "list -A -l shop=NS", "elsewhere new", []string{"NAMESPACE", "NS", other.namespace}},
		{"what kubectl takes", "list -o name -l app=busy", "", []string{"deployitem.landscaper.gardener.cloud/busy\n"}},
	} {
		s.expect(itemsCase{tc.reason, tc.command, 0, tc.want})
		out, _, _ := s.run(strings.Split(strings.ReplaceAll(tc.command, "NS", s.namespace), " ")...)
		var names []string
		for _, word := range strings.Fields(out) {
			if slices.Contains([]string{"new", "busy", "good", "bad", "elsewhere"}, word) {
				names = append(names, word)
			}
		}
		if slices.Sort(names); strings.Join(names, " ") != tc.names {
			t.Errorf("%s: expected %v, but found %v in\n%s", tc.reason, tc.names, names, out)
		}
	}
	for _, format := range []string{"json", "yaml"} {
		out, _, err := s.run("list", "-l", "app=busy", "-o", format)
		var document v1alpha1.DeployItemList
		decodeYAML(t, out, &document)
		if err != nil || len(document.Items) != 1 || document.Items[0].Name != "busy" ||
			document.Items[0].Status.JobID != "job-1" || strings.Contains(out, "t0ps3cret") {
			t.Errorf("%s: expected the item without its configuration, but found %+v, %v", format, document, err)
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
	s.remove("second")
	lines.until("(gone)")

	lines.end()
	if out, code, err := lines.wait(); code != 0 || strings.Count(out, "NAME") != 1 {
		t.Errorf("expected one header and no error, but found %d, %v:\n%s", code, err, out)
	}
}

func TestItemsListErrors(t *testing.T) {
	s := newShop(t)
	s.allow("nobody", deployItems)
	s.allowTo("list", rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "lister"}, deployItems)
	s.expect(
		itemsCase{"no rights", "list --kubeconfig " + s.as("nobody"), 2, []string{
			"forbidden", `"nobody"`, "your own rights",
		}},
		itemsCase{
			"no rights to watch", "list --watch --kubeconfig " + s.as("lister"), 2, []string{"forbidden", "your own rights"},
		},
		itemsCase{"no such selector", "list -l a=b=c", 2, []string{"--selector"}},
		itemsCase{"no definitions", "list --kubeconfig " + commandtest.WithoutDefinitions(t), 2, []string{"pergola crds"}},
	)
}
