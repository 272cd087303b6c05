package deployer_test

import (
	"slices"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
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
	w.mustHold("shop-plain-greeting", "shop-plain-settings")
	w.mustManage(item, "ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
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

	w.mustDeploy(item, w.config(chart("plain"), object{"greeting": "good evening"}))
	w.mustHave("1 superseded", "2 deployed")
	w.mustGreet("good evening")

	plugintest.NewJob(item)
	for range 2 {
		w.Do(plugintest.ForceReconcile, item)
		w.mustHave("1 superseded", "2 superseded", "3 deployed")
	}

	w.MustDelete(item)
	w.mustHave()
	w.mustHold()
}

// TestNamesWithSeparators: a name with a separator is a name. Owner and changes of the release are known, and it is
// uninstalled as any other.
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
			other := w.itemOf("other", w.config(chart("plain"), object{"greeting": "other"}, called))
			w.mustRefuse(other, "belongs to the deploy item")
			w.MustDelete(item)
			if got := w.revisions(name); len(got) > 0 {
				t.Errorf("expected that the release is uninstalled, but found %v", got)
			}
		})
	}
}

// TestStrangeRevision: a Secret with the labels of a revision and another name is an error with its name, except at the
// end of the item: there it stays, and is told.
// Rule (helm.md#troubleshooting): A Secret with the labels of a revision and another name is an error; a deletion
// leaves it and tells.
func TestStrangeRevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	w.Create(secrets, object{
		"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
		"metadata": object{"name": "sh.helm.release.v1.shop.vx", "labels": object{
			"owner": "helm", "name": "shop", "status": "deployed", "version": "1",
		}},
	})
	plugintest.NewJob(item)
	w.MustFail(w.call(item), nil, "sh.helm.release.v1.shop.vx", "delete them")
	w.mustWarn(w.MustDelete(item), "LeftOnTarget", "sh.helm.release.v1.shop.vx")
	w.MustGet(secrets, "sh.helm.release.v1.shop.vx")
}
