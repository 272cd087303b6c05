package apply_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

func (w *world) balancer(name, class string) fields {
	return w.object("v1", "Service", name, `spec: {type: LoadBalancer, ports: [{port: 80}]`+class+`}`)
}

func (w *world) claim(more string) fields {
	return w.object("v1", "PersistentVolumeClaim", "data",
		`spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}`+more+`}`)
}

// TestFieldsThatCannotBeRemoved keep their values, whoever has set them. What the item itself has set is told.
// Rule (manifest.md#update-strategies): Fields that cannot be removed keep their values.
func TestFieldsThatCannotBeRemoved(t *testing.T) {
	each(t, func(w *world) {
		const class = `, loadBalancerClass: example.org/x`
		w.Create(services, w.balancer("theirs", class))
		w.Create(claims, w.claim(`, storageClassName: slow, volumeName: v`))
		w.mustRun(manifest(w.balancer("ours", class)))

		result := w.mustRun(manifest(w.balancer("theirs", "")), manifest(w.balancer("ours", "")),
			manifest(edit(w.claim(""), "metadata: {annotations: {changed: 'yes'}}")))
		for _, name := range []string{"theirs", "ours"} {
			spec := object.Child(w.MustGet(services, name).Object, "spec")
			if spec["loadBalancerClass"] != "example.org/x" || spec["clusterIP"] == nil {
				w.Errorf("expected %s to keep what was set once, but found %v", name, spec)
			}
		}
		spec := object.Child(w.MustGet(claims, "data").Object, "spec")
		if spec["volumeName"] != "v" || spec["storageClassName"] != "slow" {
			w.Errorf("expected the claim to keep its volume, but found %v", spec)
		}
		if len(result.Retained) != 1 || result.Retained[0].Key.Name != "ours" ||
			strings.Join(result.Retained[0].Fields, ",") != "spec.loadBalancerClass" {
			w.Errorf("expected one field of ours to be told, but found %+v", result.Retained)
		}
	}, byMerge, byOverwrite) // these remove nothing
}

// TestStateIsNotImmutable: a refusal because of what an object stands for is no reason to delete it.
func TestStateIsNotImmutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, _ := w.CRD("Lamp")
	w.eventually(manifest(definition))
	_, err := w.run(manifest(edit(definition, `spec: {versions: [{name: v2, served: true, storage: true,
		schema: {openAPIV3Schema: {type: object}}}]}`), recreate))
	w.mustFail(err, target.ReasonRejected, true, "status.storedVersions")
	if strings.Contains(err.Error(), "recreate") || strings.Contains(err.Error(), "another name") {
		t.Errorf("expected no advice, but found: %v", err)
	}
}

// TestRefusedMerge: what merging has made of an object is no reason to delete it.
// Rule (manifest.md#immutable-fields): A refused result of merging does not let an object be recreated.
func TestRefusedMerge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(deployments, withEnv(w.Deployment("web", 1), `{name: A, value: "1"}`))
	uid := w.MustGet(deployments, "web").GetUID()
	source := manifest(withEnv(w.Deployment("web", 1), `{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}`),
		strategy(byApply), recreate, force)
	_, err := w.run(source)
	w.mustFail(err, target.ReasonRejected, true, "valueFrom")
	if w.MustGet(deployments, "web").GetUID() != uid {
		t.Error("the object was replaced")
	}
}

// TestRecreateThatTakesDataAlong has to be meant for the object, and says what goes.
// Rule (manifest.md#immutable-fields): A recreation with loss of data has to be meant for the object, and is told
// before.
func TestRecreateThatTakesDataAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.claim(`, storageClassName: slow`)))
	uid := w.MustGet(claims, "data").GetUID()
	changed := manifest(w.claim(`, storageClassName: fast`))
	const lost = "its volume and the data in it"
	_, err := w.run(changed)
	w.mustFail(err, apply.ReasonImmutableField, true, "with recreate: true at manifests[0]", lost)

	recreate(&changed)
	changed.Listed = true
	_, err = w.run(changed)
	w.mustFail(err, apply.ReasonImmutableField, true, "recreate at manifests[0] does not apply", lost,
		"an entry of its own")
	if w.MustGet(claims, "data").GetUID() != uid {
		t.Fatal("the claim was deleted")
	}
	changed.Listed = false
	w.mustForesee(sdk.ActionRecreate, lost, changed)
	var told []string
	plan := w.mustPlan(changed)
	plan.Recreating = func(key object.Key, lost string) {
		if w.MustGet(claims, "data").GetDeletionTimestamp() != nil {
			t.Error("it is told after the deletion")
		}
		told = append(told, key.Name+": "+lost)
	}
	if _, err := apply.Run(w.Context(), w.client, plan, recordedIn(w.inventory)); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !strings.Contains(told[0], lost) {
		t.Errorf("expected the loss to be told once, but found %v", told)
	}
}

// TestProbeRefused: an admission that forbids a creation does not tell whether a field is immutable, but for a quota
// that the deletion frees.
// Rule (manifest.md#immutable-fields): An admission without dry runs of creations says nothing about a field.
func TestProbeRefused(t *testing.T) {
	t.Parallel()
	for says, freed := range map[string]bool{
		"denied by a policy": false,
		"exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=1, limited: limits.cpu=1": false,
		"exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1":                   true,
	} {
		w := newWorld(t)
		w.mustRun(manifest(w.web("old")))
		w.forbid(says, func(r *http.Request) bool {
			return r.Method == http.MethodPost && r.URL.Query().Get("dryRun") != ""
		})
		_, err := w.run(manifest(w.web("new"), recreate))
		if !freed {
			w.mustFail(err, target.ReasonRejected, true, "field is immutable", says)
		} else if err != nil {
			t.Errorf("%s: expected a new object, but found %v", says, err)
		}
	}
}

// TestSelectorIsOneValue: what a manifest lacks in a selector is a change of it, and not kept.
// Rule (manifest.md#update-strategies): A selector dropped by the manifest is a change of it, and not kept.
func TestSelectorIsOneValue(t *testing.T) {
	each(t, func(w *world) {
		wide := edit(w.web("a"), `spec: {selector: {matchLabels: {tier: front}},
			template: {metadata: {labels: {tier: front}}}}`)
		w.mustRun(manifest(wide))
		narrow := edit(wide, `spec: {selector: {matchLabels: {tier: null}}}`)
		_, err := w.run(manifest(narrow))
		w.mustFail(err, apply.ReasonImmutableField, true, "spec.selector")
		w.mustRun(manifest(narrow, recreate))
		w.mustSelect(fields{"app": "a"})
	}, byMerge, byOverwrite) // these remove nothing
}
