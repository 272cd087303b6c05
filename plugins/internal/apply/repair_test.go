package apply_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestDrift changes an object behind the deployer's back and looks at what the next job repairs.
func TestDrift(t *testing.T) {
	t.Parallel()
	const (
		changed = `{"metadata":{"labels":{"pergola.dev/deployitem":null}},"spec":{"replicas":7,"template":{"spec":{"containers":[
			{"name":"main","image":"image:9","resources":{"requests":{"cpu":"1000m","memory":"1024Mi"}}}]}}}}`
		beside = `{"metadata":{"annotations":{"theirs":"yes"}},"spec":{"paused":true}}`
	)
	repaired := []string{`metadata.labels["pergola.dev/deployitem"]`, "spec.replicas", "spec.template.spec.containers[0].image"}
	for name, c := range map[string]struct {
		reason     string
		strategies []managedresource.UpdateStrategy
		meddle     string
		replicas   int64
		want       []string
	}{
		"nothing":  {reason: "nobody has done anything", meddle: `{}`, replicas: 2},
		"beside":   {reason: "fields that the manifest does not name belong to others", meddle: beside, replicas: 2},
		"changed":  {reason: "named fields are repaired; spellings are no difference", meddle: changed, replicas: 2, want: repaired},
		"manifest": {reason: "when the manifest has changed, nobody can tell what is drift", meddle: changed, replicas: 3},
		"respelt":  {reason: "what only looks different is not repaired", meddle: `{"spec":{"replicas":2}}`, replicas: 2},
	} {
		for _, s := range managedresource.UpdateStrategies() {
			t.Run(name+"-"+lower(s), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.mustRun(manifest(w.Deployment("web", 2), strategy(s), force))
				w.Patch(deployments, "web", c.meddle)
				result := w.mustRun(manifest(w.Deployment("web", c.replicas), strategy(s), force))
				want := c.want
				if s == managedresource.UpdateStrategyMerge && len(want) > 0 {
					want = want[:1] // what somebody has changed is left, what is missing is filled in
				}
				w.mustDrift(result, want)
				if again := w.mustRun(manifest(w.Deployment("web", c.replicas), strategy(s), force)); len(again.Drift) > 0 {
					t.Errorf("the drift was repaired, but is found again: %+v", again.Drift)
				}
			})
		}
	}
}

func (w *world) mustDrift(result apply.Result, want []string) {
	w.Helper()
	var got []string
	for _, d := range result.Drift {
		got = append(got, d.Fields...)
		if d.Missing || d.Key.Name != "web" {
			w.Errorf("expected another drift, but found %+v", d)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("drift: -want +got:\n%s", diff)
	}
}

// Rule (manifest.md#drift): A missing object is drift.
func TestMissingIsDrift(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := manifest(w.ConfigMap("a", nil)), manifest(w.ConfigMap("b", fields{"x": "1"}))
	if result := w.mustRun(a, b); len(result.Drift) > 0 {
		t.Errorf("a first creation is no drift, but found %+v", result.Drift)
	}
	w.Delete(configMaps, "a")
	w.Delete(configMaps, "b")
	result := w.mustRun(a, manifest(w.ConfigMap("b", fields{"x": "2"})))
	if len(result.Drift) != 1 || !result.Drift[0].Missing || result.Drift[0].Key.Name != "a" || len(result.Drift[0].Fields) > 0 {
		t.Errorf("expected only the unchanged one, but found %+v", result.Drift)
	}
}

// TestAnnotateBeforeCreate: what is put on at creation stays as others leave it.
// Rule (manifest.md#manifests): `annotateBeforeCreate` is set only at the creation of an object.
func TestAnnotateBeforeCreate(t *testing.T) {
	t.Parallel()
	for _, s := range managedresource.UpdateStrategies() {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			build := func(value string) desired.Manifest {
				m := manifest(w.ConfigMap("a", fields{"x": value}), strategy(s))
				m.AnnotateBeforeCreate = map[string]string{"kept": "1", "changed": "1", "removed": "1"}
				return m
			}
			w.mustRun(build("1"))
			if got := w.MustGet(configMaps, "a").GetAnnotations(); len(got) != 3 || got["kept"] != "1" {
				t.Errorf("expected the annotations, but found %v", got)
			}
			w.Patch(configMaps, "a", `{"metadata":{"annotations":{"changed":"2","removed":null}}}`)
			w.mustRun(build("2"))
			if diff := cmp.Diff(map[string]string{"kept": "1", "changed": "2"}, w.MustGet(configMaps, "a").GetAnnotations()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if result := w.mustRun(build("2")); len(result.Drift) > 0 {
				t.Errorf("they are no drift, but found %+v", result.Drift)
			}
			without := build("3")
			without.AnnotateBeforeCreate = map[string]string{"changed": "3"}
			w.mustRun(without)
			want := map[string]string{"changed": "2"}
			if s == managedresource.UpdateStrategyMerge || s == managedresource.UpdateStrategyMergeOverwrite {
				want["kept"] = "1" // these remove nothing
			}
			if diff := cmp.Diff(want, w.MustGet(configMaps, "a").GetAnnotations()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Rule (manifest.md#manifests): `patchAfterDeployment` is merged into the object, and `null` removes a field.
func TestPatchAfterDeployment(t *testing.T) {
	t.Parallel()
	for _, s := range managedresource.UpdateStrategies() {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := manifest(w.Deployment("web", 2), strategy(s), force, patchAfter(fields{
				"metadata": fields{"annotations": fields{"patched": "yes"}},
				"spec":     fields{"replicas": int64(5), "template": fields{"spec": fields{"overhead": fields{"cpu": "1000m"}}}, "paused": nil},
			}))
			if changes := w.diff(m); len(changes) != 1 || replicasIn(mustJSON(t, changes[0].After)) != 5 {
				t.Errorf("expected the patch to be foreseen, but found %+v", changes)
			}
			if result, err := w.run(m); err != nil || replicasIn(result.Applied[0].Live.Object) != 2 {
				t.Fatalf("expected the object as it is before the patch, but found %+v and the error %v", result, err)
			}
			if changes := w.diff(m); len(changes) != 1 || replicasIn(mustJSON(t, changes[0].After)) != 5 {
				t.Errorf("expected the patch alone to be foreseen, but found %+v", changes)
			}
			w.Requests.Verbs()
			w.mustRun(m)
			w.mustRequest("GET", "PATCH")
			if live := w.MustGet(deployments, "web"); replicasIn(live.Object) != 5 || live.GetAnnotations()["patched"] != "yes" {
				t.Errorf("expected it to be patched, but found %v", live.Object)
			}

			w.mustRun(m)
			w.mustRequest("GET")
			if changes := w.diff(m); len(changes) > 0 {
				t.Errorf("expected no change, but found %s and %s", changes[0].Before, changes[0].After)
			}
			for key, e := range w.inventory {
				e.Applied = ""
				w.inventory[key] = e
			}
			generation := w.MustGet(deployments, "web").GetGeneration()
			w.mustRun(m)
			// The patch is not server-side apply. Whether it has left anything behind, only doing it all again can
			// tell.
			if w.MustGet(deployments, "web").GetGeneration() != generation && s != managedresource.UpdateStrategyApply {
				t.Error("without a hash the object was written")
			}
			w.Requests.Verbs()

			w.Patch(deployments, "web", `{"metadata":{"annotations":{"patched":"no"}}}`)
			if result := w.mustRun(m); len(result.Drift) > 0 {
				t.Errorf("a field of the patch alone is no drift of the manifest, but found %+v", result.Drift)
			}
			w.mustRequest("GET", "PATCH")
			if live := w.MustGet(deployments, "web"); live.GetAnnotations()["patched"] != "yes" {
				t.Errorf("expected it to be patched again, but found %v", live.GetAnnotations())
			}

			w.Patch(deployments, "web", `{"spec":{"template":{"spec":{"containers":[
				{"name":"main","image":"image:9","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]}}}}`)
			want := []string{"spec.template.spec.containers[0].image"}
			if s == managedresource.UpdateStrategyMerge {
				want = nil
			}
			w.mustDrift(w.mustRun(m), want)
			if live := w.MustGet(deployments, "web"); replicasIn(live.Object) != 5 {
				t.Errorf("expected it to stay patched, but found %v", live.Object)
			}

			m.PatchAfterDeployment = nil
			w.mustRun(m)
			live := w.MustGet(deployments, "web")
			stays := s == managedresource.UpdateStrategyMerge || s == managedresource.UpdateStrategyMergeOverwrite
			if got := live.GetAnnotations()["patched"] == "yes"; got != stays {
				t.Errorf("expected what was patched to stay: %t, but found %v", stays, live.GetAnnotations())
			}
		})
	}
}

func replicasIn(o fields) any {
	switch n := o["spec"].(fields)["replicas"].(type) {
	case int64:
		return int(n)
	case float64:
		return int(n)
	default:
		return n
	}
}

// TestPatchErrors: each object with its own error, and those without one are patched.
func TestPatchErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good := manifest(w.ConfigMap("good", nil), patchAfter(fields{"data": fields{"x": "1"}}))
	bad := manifest(w.ConfigMap("bad", nil), patchAfter(fields{"data": fields{"not a key": "1"}}))
	none := manifest(w.ConfigMap("none", nil))
	result, err := w.run(good, bad, none)
	if err != nil {
		t.Fatal(err)
	}
	done, err := apply.Patch(t.Context(), w.client, result.Applied)
	w.mustFail(err, "ObjectRejected", true, "manifests[1].manifest: patch ConfigMap "+w.Namespace+"/bad: ", "not a key")
	if len(done) != 1 || done[0].Key.Name != "good" || dataOf(done[0].Live)["x"] != "1" || done[0].LastAppliedHash == result.Applied[0].LastAppliedHash {
		t.Errorf("expected the good one with its new state and hash, but found %+v", done)
	}
}

// TestRefusedRepair: what the API server refuses to repair is drift as long as the manifest is the same, and no failure.
// Rule (manifest.md#drift): A repair refused by the target is drift with the reason, and no failure of an unchanged
// item.
func TestRefusedRepair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range managedresource.UpdateStrategies() {
		if s == managedresource.UpdateStrategyMerge {
			continue // it leaves what others have changed
		}
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := "frozen-" + lower(s)
			wanted := func(value string) desired.Manifest {
				return manifest(w.ConfigMap(name, fields{"key": value}), strategy(s), force)
			}
			w.mustRun(wanted("1"))
			w.Patch(configMaps, name, `{"data":{"key":"2"},"immutable":true}`)
			for range 2 {
				result := w.mustRun(wanted("1"))
				if len(result.Applied) != 1 || len(result.Drift) != 1 || strings.Join(result.Drift[0].Fields, " ") != "data.key" ||
					!strings.Contains(result.Drift[0].Refused, "immutable") {
					t.Errorf("expected a drift that stays, but found %+v", result)
				}
				changes := w.diff(wanted("1"))
				if len(changes) != 1 || changes[0].Action != sdk.ActionKeep || !strings.Contains(changes[0].Note, "immutable") {
					t.Errorf("expected the preview to say so, but found %+v", changes)
				}
			}
			_, err := w.run(wanted("3"))
			w.mustFail(err, apply.ReasonImmutableField, true)
		})
	}
}
