package deployer_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/test/charts"
)

// helmCLI is the ordinary Helm, of the version that the deployer has, as `make bin/tools/helm` builds it.
type helmCLI struct {
	*world

	binary, kubeconfig, home string
}

func newHelmCLI(w *world) *helmCLI {
	w.Helper()
	root, err := filepath.Abs("../../../..")
	if err != nil {
		w.Fatal(err)
	}
	h := &helmCLI{world: w, binary: filepath.Join(root, "bin", "tools", "helm"), home: w.TempDir()}
	if _, err := os.Stat(h.binary); err != nil {
		w.Fatalf("this test needs the Helm CLI: run `make bin/tools/helm`: %v", err)
	}
	h.kubeconfig = filepath.Join(h.home, "kubeconfig")
	kubeconfig, err := w.Call.Target.Kubeconfig()
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(h.kubeconfig, kubeconfig, 0o600); err != nil {
		w.Fatal(err)
	}
	return h
}

// run runs a command of Helm in the namespace of the test.
func (h *helmCLI) run(args ...string) string {
	h.Helper()
	args = append(args, "--namespace", h.Namespace, "--kubeconfig", h.kubeconfig)
	command := exec.CommandContext(h.Context(), h.binary, args...)
	command.Env = []string{"HOME=" + h.home, "PATH=" + os.Getenv("PATH")}
	out, err := command.Output()
	if err != nil {
		stderr := ""
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // it is the error of Output itself
			stderr = string(exit.Stderr)
		}
		h.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, stderr)
	}
	return string(out)
}

// chartFile writes a chart of the tests to a file.
func (h *helmCLI) chartFile(name string, opts ...charts.Option) string {
	h.Helper()
	path := filepath.Join(h.TempDir(), name+".tgz")
	if err := os.WriteFile(path, charts.Pack(name, opts...), 0o600); err != nil {
		h.Fatal(err)
	}
	return path
}

// TestHelmCLI: what the deployer has made, people can work on with the ordinary Helm, and the deployer goes on from
// there.
// Rule (helm.md#releases): The Helm CLI can read and change a release; the next job reverts its upgrades.
func TestHelmCLI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHelmCLI(w)
	// What is no object is part of a manifest, too.
	comment := charts.File("templates/comment.yaml", "# only a comment\n---\n\n# another one\n")
	item := w.item(w.config(chart("plain", comment), object{"greeting": "one"}))
	w.MustSucceed(item)

	var listed []struct{ Name, Revision, Status, Chart string }
	if err := json.Unmarshal([]byte(h.run("list", "-o", "json")), &listed); err != nil {
		t.Fatal(err)
	}
	if want := "[{shop 1 deployed plain-1.0.0}]"; fmt.Sprint(listed) != want {
		t.Errorf("expected Helm to list %s, but found %v", want, listed)
	}
	if got := h.run("get", "values", "shop"); !strings.Contains(got, "greeting: one") {
		t.Errorf("expected Helm to know the values, but found %q", got)
	}

	ours := h.run("get", "manifest", "shop")
	h.run("upgrade", "shop", h.chartFile("plain", comment), "--set", "greeting=one")
	if diff := cmp.Diff(ours, h.run("get", "manifest", "shop")); diff != "" {
		t.Errorf("expected the same manifest: -ours +Helm's:\n%s", diff)
	}
	h.run("upgrade", "shop", h.chartFile("plain"), "--set", "greeting=two")
	w.mustGreet("two")
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustGreet("one")
	w.mustHave("1 superseded", "2 superseded", "3 superseded", "4 deployed")

	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "four"}))
	h.run("rollback", "shop", "4")
	w.mustGreet("one")
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustGreet("four")

	h.run("uninstall", "shop", "--keep-history")
	w.mustGreet(nil)
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustGreet("four")
	w.mustDoNothing(item)

	h.run("uninstall", "shop")
	w.mustGreet(nil)
	plugintest.NewJob(item)
	w.MustSucceed(item)
	w.mustGreet("four")
	w.mustHave("1 deployed")

	h.run("uninstall", "shop")
	w.MustDelete(item)
	w.mustHave()
}

// TestReleaseOfNobodyAndAnotherChart: a release that has the name by chance is not taken without the user's word.
// Rule (helm.md#releases): An item takes a release of no item only if it is of the same chart.
// Rule (helm.md#releases): A release of the Helm CLI of the same chart is taken over.
func TestReleaseOfNobodyAndAnotherChart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := newHelmCLI(w)
	h.run("install", "shop", h.chartFile("plain"), "--set", "greeting=one")
	item := w.item(w.config(chart("plain", charts.Name("stock")), nil))
	w.mustRefuse(item, `chart "plain"`, `chart "stock"`, "takeOwnership")
	w.mustGreet("one")
	w.MustDelete(item)
	w.mustGreet("one")

	item = w.item(w.config(chart("plain"), object{"greeting": "two"}))
	w.mustWarn(w.MustSucceed(item), "TakenOver", "belonged to no deploy item")
	w.mustGreet("two")
	w.mustHave("1 superseded", "2 deployed")
	w.mustBeClean(item)
	w.MustDelete(item)
	w.mustHave()
	w.mustGreet(nil)
}
