package deployer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// TestRelease takes a release through its life.
// Rule (helm.md#deletion): A release is uninstalled with its history.
func TestRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), object{"greeting": "good morning"}))

	w.MustSucceed(item)
	installed := w.Requests.Take()
	once := w.Requests.AskedOnce()
	if len(installed)+once > 16 { // one of them once for a client, about the cluster
		t.Errorf("expected at most 16 requests to install two objects, but found %d and %v", once, installed)
	}
	both := []string{"shop-plain-greeting", "shop-plain-settings"}
	if diff := cmp.Diff(both, w.Names(configMaps, "")); diff != "" {
		t.Errorf("after the installation: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings"}, w.managed(item)); diff != "" {
		t.Errorf("the provider status: -want +got:\n%s", diff)
	}
	w.mustHave("1 deployed")

	plugintest.NewJob(item)
	w.MustSucceed(item)
	unchanged := w.Requests.Take()
	if once = w.Requests.AskedOnce() - once; len(unchanged)+once > 6 {
		t.Errorf("expected at most 6 requests of a job that finds nothing changed, but found %d and %v", once, unchanged)
	}
	if slices.ContainsFunc(unchanged, plugintest.IsWrite) {
		t.Errorf("expected no write without a change, but found %v", unchanged)
	}
	w.mustHave("1 deployed")

	w.setConfig(item, w.config(chart("plain"), object{"greeting": "good evening"}))
	w.MustSucceed(item)
	w.mustHave("1 superseded", "2 deployed")
	if got := w.Get(configMaps, both[0]).Object["data"].(object)["greeting"]; got != "good evening" {
		t.Errorf("expected the new value on the target, but found %v", got)
	}

	plugintest.NewJob(item)
	w.Do(plugintest.ForceReconcile, item)
	w.mustHave("1 superseded", "2 superseded", "3 deployed")
	w.Do(plugintest.ForceReconcile, item)
	w.mustHave("1 superseded", "2 superseded", "3 deployed")

	w.MustDelete(item)
	w.mustHave()
	if got := w.Names(configMaps, ""); len(got) > 0 {
		t.Errorf("after the deletion there is still %v", got)
	}
}

func (w *world) mustHave(revisions ...string) {
	w.Helper()
	if diff := cmp.Diff(revisions, w.revisions("shop")); diff != "" {
		w.Errorf("the revisions: -want +got:\n%s", diff)
	}
}

// TestDrift: what somebody has changed or deleted is repaired by a new revision, and told.
func TestDrift(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, foreseen string
		change           func(w *world)
	}{
		// Rule (helm.md#unchanged-releases-and-drift): A changed object of a release is repaired by a new revision, and
		// reported.
		"changed": {
			reason: "a field that the chart sets", foreseen: "update ConfigMap %s/shop-plain-greeting",
			change: func(w *world) { w.Patch(configMaps, "shop-plain-greeting", `{"data":{"greeting":"boo"}}`) },
		},
		// Rule (helm.md#unchanged-releases-and-drift): A deleted object of a release is restored by a new revision, and
		// reported.
		"deleted": {
			reason: "an object of the chart", foreseen: "create ConfigMap %s/shop-plain-greeting",
			change: func(w *world) { w.Delete(configMaps, "shop-plain-greeting") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			item := w.item(w.config(chart("plain"), nil))
			w.MustSucceed(item)
			c.change(w)
			w.mustChange(item, c.foreseen)
			plugintest.NewJob(item)
			result := w.MustSucceed(item)
			w.mustHave("1 superseded", "2 deployed")
			if got := w.Get(configMaps, "shop-plain-greeting").Object["data"].(object)["greeting"]; got != "hello" {
				t.Errorf("%s: expected it to be repaired, but found %v", c.reason, got)
			}
			w.mustTellDrift(result, "ConfigMap "+w.Namespace+"/shop-plain-greeting")
			plugintest.NewJob(item)
			w.Requests.Take()
			w.MustSucceed(item)
			if writes := w.Requests.Writes(); len(writes) > 0 {
				t.Errorf("%s: a job after the repair wrote %v", c.reason, writes)
			}
		})
	}
}

// mustTellDrift checks that the condition Drifted is true and names what is expected.
func (w *world) mustTellDrift(result *sdktest.Result, parts ...string) {
	w.Helper()
	i := slices.IndexFunc(result.Conditions, func(c sdk.Condition) bool {
		return c.Type == managedresource.ConditionDrifted && c.Status == landscaper.ConditionTrue
	})
	if i < 0 {
		w.Errorf("expected the condition Drifted, but found %v", result.Conditions)
		return
	}
	for _, part := range parts {
		if !strings.Contains(result.Conditions[i].Message, part) {
			w.Errorf("expected the condition to name %q, but found %q", part, result.Conditions[i].Message)
		}
	}
}

// A name that contains a separator is a name: who owns the release, whether it is unchanged and that it is uninstalled
// is known as with any other.
// Rule (helm.md#releases): A release may have any name allowed by Helm, such as `release` or `a.release.v3`.
func TestNamesWithSeparators(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"release", "helm.release", "sh.helm.release.v1", "a.release.v3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			called := object{"name": name}
			item := w.item(w.config(chart("plain"), nil, called))
			w.MustSucceed(item)
			plugintest.NewJob(item)
			w.MustSucceed(item)
			if got := w.revisions(name); len(got) != 1 {
				t.Errorf("expected one revision, but found %v", got)
			}
			w.MustFail(w.Do(plugintest.Reconcile, w.itemOf("other", w.config(chart("plain"), object{"greeting": "other"}, called))),
				plugintest.ConfigurationProblem, "belongs to the deploy item")
			w.MustDelete(item)
			if got := w.revisions(name); len(got) > 0 {
				t.Errorf("expected that the release is uninstalled, but found %v", got)
			}
		})
	}
}

// What has the labels of a revision and is none is an error that names it, except at the end of the item: there it
// stays, and is told.
// Rule (helm.md#troubleshooting): A Secret with the labels of a revision and another name is an error; a deletion
// leaves it and tells.
func TestStrangeRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	w.Create(secrets, object{
		"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
		"metadata": object{"name": "sh.helm.release.v1.shop.vx", "labels": object{"owner": "helm", "name": "shop", "status": "deployed", "version": "1"}},
	})
	plugintest.NewJob(item)
	w.MustFail(w.Do(plugintest.Reconcile, item), nil, "sh.helm.release.v1.shop.vx", "delete them")
	if said := w.mustWarn(w.MustDelete(item), "LeftOnTarget"); !strings.Contains(said, "sh.helm.release.v1.shop.vx") {
		t.Errorf("expected the Secret's name, but found %q", said)
	}
	if w.Get(secrets, "sh.helm.release.v1.shop.vx") == nil {
		t.Error("the Secret is gone, which is nobody's")
	}
}
