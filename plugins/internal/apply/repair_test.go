package apply_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
)

// TestDrift changes an object behind the deployer's back and looks at what the next job repairs.
func TestDrift(t *testing.T) {
	const (
		changed = `{"metadata":{"labels":{"pergola.dev/deployitem":null}},"spec":{"replicas":7,"template":{"spec":{
			"containers":[{"name":"main","image":"image:9","resources":{"requests":{"cpu":"1000m","memory":"1024Mi"}}}]}}}}`
		beside = `{"metadata":{"annotations":{"theirs":"yes"}},"spec":{"paused":true}}`
	)
	repaired := []string{
		`metadata.labels["pergola.dev/deployitem"]`, "spec.replicas", "spec.template.spec.containers[0].image",
	}
	each(t, func(w *world) {
		for _, c := range []struct {
			reason, meddle string
			replicas       int64
			want           []string
		}{
			{"fields that the manifest does not name belong to others", beside, 2, nil},
			{"named fields are repaired; spellings are no difference", changed, 2, repaired},
			{"when the manifest has changed, nobody can tell what is drift", changed, 3, nil},
			{"what only looks different is not repaired", `{"spec":{"replicas":2}}`, 2, nil},
		} {
			w.mustRun(manifest(w.Deployment("web", 2), force))
			w.Patch(deployments, "web", c.meddle)
			m := manifest(w.Deployment("web", c.replicas), force)
			want := c.want
			if w.strategy == byMerge && len(want) > 0 {
				want = want[:1] // what somebody has changed is left, what is missing is filled in
			}
			w.mustDrift(c.reason, w.mustRun(m), want)
			w.mustDrift("the drift was repaired", w.mustRun(m), nil)
			w.Delete(deployments, "web")
			w.beItem("item")
		}
	})
}

func (w *world) mustDrift(reason string, result apply.Result, want []string) {
	w.Helper()
	var got []string
	for _, d := range result.Drift {
		got = append(got, d.Fields...)
		if d.Missing || d.Key.Name != "web" {
			w.Errorf("%s: expected another drift, but found %+v", reason, d)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s: drift: -want +got:\n%s", reason, diff)
	}
}

// TestAnnotateBeforeCreate: what is put on at creation stays as others leave it.
// Rule (manifest.md#manifests): `annotateBeforeCreate` is set only at the creation of an object.
func TestAnnotateBeforeCreate(t *testing.T) {
	each(t, func(w *world) {
		all := map[string]string{"kept": "1", "changed": "1", "removed": "1"}
		now := func(value string, annotations, want map[string]string) {
			w.Helper()
			m := manifest(w.ConfigMap("a", fields{"x": value}))
			m.AnnotateBeforeCreate = annotations
			w.mustRun(m)
			if result := w.mustRun(m); len(result.Drift) > 0 {
				w.Errorf("they are no drift, but found %+v", result.Drift)
			}
			if diff := cmp.Diff(want, w.MustGet(configMaps, "a").GetAnnotations()); diff != "" {
				w.Errorf("-want +got:\n%s", diff)
			}
		}
		now("1", all, all)
		w.Patch(configMaps, "a", `{"metadata":{"annotations":{"changed":"2","removed":null}}}`)
		now("2", all, map[string]string{"kept": "1", "changed": "2"})
		want := map[string]string{"changed": "2"}
		if w.strategy == byMerge || w.strategy == byOverwrite {
			want["kept"] = "1" // these remove nothing
		}
		now("3", map[string]string{"changed": "3"}, want)
	})
}

// Rule (manifest.md#manifests): `patchAfterDeployment` is merged into the object, and `null` removes a field.
func TestPatchAfterDeployment(t *testing.T) {
	each(t, func(w *world) {
		m := manifest(edit(w.Deployment("web", 2), "spec: {minReadySeconds: 7}"), force, patchAfter(`{
			metadata: {annotations: {patched: 'yes'}}, spec: {replicas: 5, minReadySeconds: null, paused: null,
			template: {spec: {overhead: {cpu: 1000m}}}}}`))
		foreseen := func(action sdk.Action) {
			w.Helper()
			if c := w.mustForesee(action, "", m); object.Count(plugintest.Fields(string(c.After)), "spec", "replicas") != 5 {
				w.Errorf("expected the patch to be foreseen, but found %s", c.After)
			}
		}
		mustBePatched := func(annotation string) {
			w.Helper()
			live := w.MustGet(deployments, "web")
			spec := object.Child(live.Object, "spec")
			if object.Count(spec, "replicas") != 5 || object.Count(spec, "minReadySeconds") != 0 ||
				live.GetAnnotations()["patched"] != annotation {
				w.Errorf("expected it to be patched, but found %v", live.Object)
			}
		}
		foreseen(sdk.ActionCreate)
		if result, err := w.run(m); err != nil || object.Count(result.Applied[0].Live.Object, "spec", "replicas") != 2 {
			w.Fatalf("expected the object as it is before the patch, but found %+v and the error %v", result, err)
		}
		foreseen(sdk.ActionUpdate)
		w.Requests.Verbs()
		w.mustRun(m)
		w.mustRequest("GET", "PATCH")
		mustBePatched("yes")

		w.mustRun(m)
		w.mustRequest("GET")
		w.mustForeseeNothing(m)
		w.forgetHashes()
		generation := w.MustGet(deployments, "web").GetGeneration()
		w.mustRun(m)
		// The patch is not server-side apply. Whether it has left anything behind, only doing it all again can tell.
		if w.MustGet(deployments, "web").GetGeneration() != generation && w.strategy != byApply {
			w.Error("without a hash the object was written")
		}

		w.Patch(deployments, "web", `{"metadata":{"annotations":{"patched":"no"}}}`)
		w.Requests.Verbs()
		w.mustDrift("a field of the patch alone is no drift of the manifest", w.mustRun(m), nil)
		w.mustRequest("GET", "PATCH")
		mustBePatched("yes")

		w.Patch(deployments, "web", `{"spec":{"template":{"spec":{"containers":[
			{"name":"main","image":"image:9","resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]}}}}`)
		want := []string{"spec.template.spec.containers[0].image"}
		if w.strategy == byMerge {
			want = nil
		}
		w.mustDrift("the manifest", w.mustRun(m), want)
		mustBePatched("yes")

		m.PatchAfterDeployment = nil
		w.mustRun(m)
		live := w.MustGet(deployments, "web")
		stays := w.strategy == byMerge || w.strategy == byOverwrite
		if got := live.GetAnnotations()["patched"] == "yes"; got != stays {
			w.Errorf("expected what was patched to stay: %t, but found %v", stays, live.GetAnnotations())
		}
	})
}

// TestPatchOfAnotherObject: an object that was made anew since it was applied is not patched.
func TestPatchOfAnotherObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := manifest(w.ConfigMap("a", nil), patchAfter(`data: {x: "1"}`))
	result, err := w.run(m)
	if err != nil {
		t.Fatal(err)
	}
	w.Delete(configMaps, "a")
	w.Create(configMaps, w.ConfigMap("a", fields{"a": "theirs"}))
	_, err = apply.Patch(t.Context(), w.client, result.Applied)
	w.mustFail(err, "TargetError", false, "manifests[0].manifest: patch ConfigMap "+w.Namespace+"/a: ", "another object")
	w.mustHave("a", fields{"a": "theirs"})
}

// TestPatchErrors: each object with its own error, and those without one are patched.
func TestPatchErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	result, err := w.run(
		manifest(w.ConfigMap("good", nil), patchAfter(`data: {x: "1"}`)),
		manifest(w.ConfigMap("bad", nil), patchAfter(`data: {not a key: "1"}`)), manifest(w.ConfigMap("none", nil)),
	)
	if err != nil {
		t.Fatal(err)
	}
	done, err := apply.Patch(t.Context(), w.client, result.Applied)
	w.mustFail(err, "ObjectRejected", true, "manifests[1].manifest: patch ConfigMap "+w.Namespace+"/bad: ", "not a key")
	if len(done) != 1 || done[0].Key.Name != "good" || object.Text(done[0].Live.Object, "data", "x") != "1" ||
		done[0].LastAppliedHash == result.Applied[0].LastAppliedHash {
		t.Errorf("expected the good one with its new state and hash, but found %+v", done)
	}
}

// TestRefusedRepair: what the API server refuses to repair is drift as long as the manifest is the same, and no
// failure.
// Rule (manifest.md#drift): A repair refused by the target is drift with the reason, and no failure of an unchanged
// item.
func TestRefusedRepair(t *testing.T) {
	each(t, func(w *world) {
		wanted := func(value string) desired.Manifest {
			return manifest(w.ConfigMap("frozen", fields{"key": value}), force)
		}
		w.mustRun(wanted("1"))
		w.Patch(configMaps, "frozen", `{"data":{"key":"2"},"immutable":true}`)
		for range 2 {
			result := w.mustRun(wanted("1"))
			if len(result.Applied) != 1 || len(result.Drift) != 1 ||
				strings.Join(result.Drift[0].Fields, " ") != "data.key" ||
				!strings.Contains(result.Drift[0].Refused, "immutable") {
				w.Errorf("expected a drift that stays, but found %+v", result)
			}
			w.mustForesee(sdk.ActionKeep, "immutable", wanted("1"))
		}
		_, err := w.run(wanted("3"))
		w.mustFail(err, apply.ReasonImmutableField, true)
	}, byMerge) // it leaves what others have changed
}
