package deployer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// HTTP hooks: the objects they see, and those deployed in their places.

// The objects of the chart plain with the template about: of an installation, and of an upgrade.
var (
	atUpgrade = []string{"ConfigMap about", "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings"}
	atInstall = slices.Insert(slices.Clone(atUpgrade), 1, "ConfigMap first")
)

// TestChildren: objects changed by an HTTP hook are deployed in the places of those of the chart.
// Rule (helm.md#http-hooks): The objects of an HTTP hook become part of the revision.
func TestChildren(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("plain"), nil))
		w.mustRender(item, 0, "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
		w.Call.Children = w.withHook(item).Children
		w.MustSucceed(item)
		for _, name := range []string{"shop-plain-greeting", "shop-plain-settings"} {
			if got := w.Get(configMaps, name).GetAnnotations()["example.org/hooked"]; got != "yes" {
				w.Errorf("expected %s of the hook, but found the annotation %q", name, got)
			}
		}
		plugintest.NewJob(item)
		w.Call.Children = w.Call.Children[:1]
		w.MustFail(w.UntilDone(plugintest.Reconcile, item), configProblem,
			"ConfigMap shop-plain-settings", "cannot be left out")
	})
}

// TestRenderedIsWhatIsDeployed: an HTTP hook sees the objects of the revision the job makes, for each reason of a
// revision.
func TestRenderedIsWhatIsDeployed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	boo := func() { w.Patch(configMaps, "shop-plain-greeting", `{"data":{"greeting":"boo"}}`) }
	greets := func(greeting string) object { return w.config(chart("plain", about()), object{"greeting": greeting}) }
	item := w.item(greets("one"))
	for _, step := range []struct {
		reason string
		change func()
		// sees is the revision of the first rendering, and deployed that of the last one in the job.
		sees, deployed int
		operation      plugintest.Operation
	}{
		{"an installation", nil, 1, 1, plugintest.Reconcile},
		{"nothing to do", nil, 1, 1, plugintest.Reconcile},
		{"other values", func() { w.SetConfig(item, greets("two")) }, 2, 2, plugintest.Reconcile},
		{"drift", boo, 2, 3, plugintest.Reconcile},
		{"force", nil, 3, 4, plugintest.ForceReconcile},
		{"nothing to do again", nil, 4, 4, plugintest.Reconcile},
	} {
		if step.change != nil {
			step.change()
		}
		plugintest.NewJob(item)
		sees, history := atUpgrade, []string{fmt.Sprintf("%d deployed", step.deployed)}
		if step.sees == 1 {
			sees = atInstall
		}
		for revision := step.deployed - 1; revision > 0; revision-- {
			history = append([]string{fmt.Sprintf("%d superseded", revision)}, history...)
		}
		w.mustRender(item, step.sees, sees...)
		w.mustSucceedWithHook(item, step.operation)
		w.mustHave(history...)
		w.mustBeAbout(step.deployed)
		w.mustChange(item)
		if next := w.status(item).Release.Next; next != 0 {
			t.Errorf("expected nothing left to do, but found revision %d", next)
		}
		if t.Failed() {
			t.Fatal(step.reason)
		}
	}
	w.mustGreet("two")
	if got := w.Get(configMaps, "about").GetAnnotations()["example.org/hooked"]; got != "yes" {
		t.Errorf("expected the object of the hook, but found the annotation %q", got)
	}
	w.MustDelete(item)
}

// TestRepairOfAnInstallationWithHook: objects only for an installation are not missed at the repair of the first
// revision.
func TestRepairOfAnInstallationWithHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain", about()), nil))
	w.mustSucceedWithHook(item, plugintest.Reconcile)
	w.Delete(configMaps, "shop-plain-greeting")
	plugintest.NewJob(item)
	w.mustWait(w.DoCall(t.Context(), plugintest.Reconcile, w.withHook(item)), "the HTTP hook", "revision 2")
	w.mustSucceedWithHook(item, plugintest.Reconcile)
	w.mustHave("1 superseded", "2 deployed")
	w.mustGreet("hello")
	w.mustBeAbout(2)
	w.MustDelete(item)
}

// TestRenderWithoutRelease: there are no revisions, and templates see an installation each time.
// Rule (helm.md#without-a-release): Templates see an installation, with `.Release.IsInstall`.
func TestRenderWithoutRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain", about()), nil, withoutRelease))
	for _, greeting := range []string{"one", "two"} {
		w.setConfig(item, w.config(chart("plain", about()), object{"greeting": greeting}, withoutRelease))
		w.mustRender(item, 0, atInstall...)
		w.MustSucceed(item)
		w.mustBeAbout(0)
	}
	w.MustDelete(item)
}

// TestDiffOfAnUpgrade shows the rendering of an upgrade.
func TestDiffOfAnUpgrade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain", about()), nil))
	w.MustSucceed(item)
	w.setConfig(item, w.config(chart("plain", about()), object{"copies": 2}))
	w.mustChange(item, "keep ConfigMap %s/first", "update ConfigMap %s/about", "update ConfigMap %s/shop-plain-greeting")
	w.MustSucceed(item)
	w.mustBeAbout(2)
	w.MustDelete(item)
}

// TestChartThatRendersAnewEachTime: with an HTTP hook the objects are others in each call, and the job makes one
// revision all the same.
// Rule (helm.md#unchanged-releases-and-drift): A chart with other objects each time gets one revision per job with an
// HTTP hook.
func TestChartThatRendersAnewEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(random(), nil, w.untilOpen()))
	for range 3 {
		w.mustWait(w.DoCall(t.Context(), plugintest.Reconcile, w.withHook(item)))
	}
	w.mustHave("1 deployed")
	w.open("gate")
	w.mustSucceedWithHook(item, plugintest.Reconcile)
	w.mustHave("1 deployed")
	w.MustDelete(item)
}

// TestChildrenOfAChartWithHooks: Helm creates the objects of its own hooks, and an HTTP hook does not see them then.
// Rule (helm.md#http-hooks): An HTTP hook does not get the hooks of a chart.
func TestChildrenOfAChartWithHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("hooks"), nil))
	w.mustRender(item, 0, "ConfigMap shop-hooks")
	withFolder := w.itemOf("other", w.config(chart("definitions"), nil)) // crds
	w.mustRender(withFolder, 0, "Gadget.charts.example.org shop-definitions")
	w.mustSucceedWithHook(item, plugintest.Reconcile)
	w.setConfig(item, w.config(chart("hooks"), object{"greeting": "two"}))
	w.mustChange(item, "update ConfigMap %s/shop-hooks")
	w.mustSucceedWithHook(item, plugintest.Reconcile)
	w.mustHave("1 superseded", "2 deployed")
	w.MustDelete(item)
}

// TestHooksOfTheChart: with a release Helm runs them, and the progress names each. Their order and their ends are in
// the tests of package helm3. Without a release those of an installation are ordinary objects, and others are not
// created.
// Rule (helm.md#releases): Helm runs the hooks of a chart, and the progress names them.
// Rule (helm.md#without-a-release): Hooks of an installation are ordinary objects, and other hooks are ignored.
func TestHooksOfTheChart(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		item := w.item(w.config(chart("hooks"), nil))
		ran := w.stepsOf(w.MustSucceed(item), "RunHook")
		var want []string
		managed := []string{"ConfigMap shop-hooks"}
		if w.plain {
			for _, name := range []string{"announce", "migrate", "prepare", "refresh"} {
				managed = append(managed, "ConfigMap shop-hooks-"+name)
			}
		} else {
			for _, hook := range []string{
				"pre-install prepare", "pre-install migrate", "post-install announce", "pre-delete drain", "post-delete farewell",
			} {
				event, name, _ := strings.Cut(hook, " ")
				want = append(want, fmt.Sprintf(`%s hook ConfigMap "shop-hooks-%s" of hooks/templates/hooks.yaml`, event, name))
			}
		}
		w.mustManage(item, managed...)
		ran = append(ran, w.stepsOf(w.MustDelete(item), "RunHook")...)
		if diff := cmp.Diff(want, ran); diff != "" {
			w.Errorf("the hooks: -want +got:\n%s", diff)
		}
		if w.plain {
			w.mustHold()
		}
	})
}
