package apply_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestOthersInBetween lets somebody change or delete the object right before it is written.
// Rule (manifest.md#update-strategies): All strategies tolerate a change, a deletion or a new object right before the
// write.
func TestOthersInBetween(t *testing.T) {
	each(t, func(w *world) {
		for name, meddle := range map[string]func(){
			"changed": func() { w.Patch(configMaps, "changed", `{"data":{"c":null}}`) },
			"deleted": func() { w.Delete(configMaps, "deleted") },
			"replaced": func() {
				w.Delete(configMaps, "replaced")
				w.Create(configMaps, w.ConfigMap("replaced", fields{"a": "theirs"}))
			},
		} {
			m := manifest(w.ConfigMap(name, fields{"a": "1", "c": "1"}), force)
			w.mustRun(m)
			w.Patch(configMaps, name, `{"data":{"c":null}}`)
			w.beforeOne(isWrite, meddle)
			w.mustRun(m)
			w.Requests.Undisturbed()
			want := fields{"a": "1", "c": "1"}
			if name == "replaced" && w.strategy == byMerge {
				want["a"] = "theirs"
			}
			w.mustHave(name, want)
		}
	})
}

// TestOthersForEver: somebody who changes the object before each write wins, and the job says so and may try again.
func TestOthersForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("a", fields{"a": "1"})))
	n := 0
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if isWrite(r) {
			n++
			w.Patch(configMaps, "a", fmt.Sprintf(`{"data":{"theirs":"%d"}}`, n))
		}
		return nil, nil
	})
	_, err := w.run(manifest(w.ConfigMap("a", fields{"a": "2"})))
	w.mustFail(err, target.ReasonTarget, false, "ConfigMap "+w.Namespace+"/a", "others keep changing it at the same time")
}

// TestOthersCreateFirst: an object that appears when nobody expects it is treated as any that exists.
func TestOthersCreateFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.beforeOne(isWrite, func() { w.prepare("a", others) })
	result := w.mustRun(manifest(w.ConfigMap("a", nil), policy(managedresource.PolicyFallback)))
	if len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0].Why, "elsewhere.item") {
		t.Errorf("expected it to be left to the other item, but found %+v", result)
	}
}

// TestCreationIsForbidden: a quota forbids to create even what exists.
func TestCreationIsForbidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.prepare("a", ours)
	m := manifest(w.ConfigMap("a", fields{"c": "manifest"}))
	for _, item := range w.mustPlan(m).Items() {
		w.inventory[item.Key] = item.Entry() // the job was cut off before it noted the uid
	}
	w.forbid("no", func(r *http.Request) bool { return r.Method == http.MethodPost })
	w.mustRun(m)
	w.mustHave("a", fields{"c": "manifest"})
}

// TestChangedBeforePatches: a patch does not hide what others have changed right before it.
func TestChangedBeforePatches(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*desired.Manifest){
		"strategy": strategy(byPatch), "after deployment": patchAfter(`metadata: {annotations: {n: "1"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mustRun(manifest(w.ConfigMap("a", fields{"a": "1", "b": "1"}), set))
			w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPatch {
					w.Patch(configMaps, "a", `{"data":{"a":"theirs"}}`)
				}
				return nil, nil
			})
			m := manifest(w.ConfigMap("a", fields{"a": "1", "b": "2"}), set)
			w.mustRun(m)
			w.Requests.Undisturbed()
			w.mustHave("a", fields{"a": "theirs", "b": "2"})
			w.mustRun(m)
			w.mustHave("a", fields{"a": "1", "b": "2"})
		})
	}
}

// TestOthersInBetweenDiff: a difference is that to the object as it is, not a failure.
func TestOthersInBetweenDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("exists", fields{"a": "1"})))
	dry := func(r *http.Request) bool { return r.Method != http.MethodGet }
	w.beforeOne(dry, func() { w.Patch(configMaps, "exists", `{"data":{"theirs":"1"}}`) })
	c := w.mustForesee(sdk.ActionUpdate, "", manifest(w.ConfigMap("exists", fields{"a": "2"})))
	if !strings.Contains(string(c.Before), "theirs") {
		t.Errorf("expected an update of the object as it is, but found %+v", c)
	}
	w.beforeOne(dry, func() { w.Create(configMaps, w.ConfigMap("appears", nil)) })
	w.mustForesee(sdk.ActionUpdate, "", manifest(w.ConfigMap("appears", fields{"a": "2"})))
}
