package apply_test

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

var claims = plugintest.Resource{Version: "v1", Resource: "persistentvolumeclaims"}

func (w *world) balancer(name, class string) fields {
	spec := fields{"type": "LoadBalancer", "ports": []any{fields{"port": int64(80)}}}
	if class != "" {
		spec["loadBalancerClass"] = class
	}
	return fields{"apiVersion": "v1", "kind": "Service", "metadata": fields{"name": name, "namespace": w.Namespace}, "spec": spec}
}

func (w *world) claim(name, size string, more fields) fields {
	spec := fields{"accessModes": []any{"ReadWriteOnce"}, "resources": fields{"requests": fields{"storage": size}}}
	for key, value := range more {
		spec[key] = value
	}
	return fields{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": fields{"name": name, "namespace": w.Namespace}, "spec": spec,
	}
}

// TestFieldsThatCannotBeRemoved keep their values, whoever has set them. What the item itself has set is told.
// Rule (manifest.md#update-strategies): Fields that cannot be removed keep their values.
func TestFieldsThatCannotBeRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []managedresource.UpdateStrategy{
		managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyPatch, managedresource.UpdateStrategyApply,
	} {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			theirs, ours, volume := "theirs-"+lower(s), "ours-"+lower(s), "volume-"+lower(s)
			w.Create(services, w.balancer(theirs, "example.org/x"))
			w.Create(claims, w.claim(volume, "1Gi", fields{"storageClassName": "slow", "volumeName": "v"}))
			w.mustRun(manifest(w.balancer(ours, "example.org/x"), strategy(s)))

			changed := w.claim(volume, "1Gi", nil)
			changed["metadata"].(fields)["annotations"] = fields{"changed": "yes"}
			result := w.mustRun(
				manifest(w.balancer(theirs, ""), strategy(s)), manifest(w.balancer(ours, ""), strategy(s)),
				manifest(changed, strategy(s)),
			)
			for _, name := range []string{theirs, ours} {
				spec := w.MustGet(services, name).Object["spec"].(fields)
				if spec["loadBalancerClass"] != "example.org/x" || spec["clusterIP"] == nil {
					t.Errorf("expected %s to keep what was set once, but found %v", name, spec)
				}
			}
			if spec := w.MustGet(claims, volume).Object["spec"].(fields); spec["volumeName"] != "v" || spec["storageClassName"] != "slow" {
				t.Errorf("expected the claim to keep its volume, but found %v", spec)
			}
			if len(result.Retained) != 1 || result.Retained[0].Key.Name != ours ||
				strings.Join(result.Retained[0].Fields, ",") != "spec.loadBalancerClass" {
				t.Errorf("expected one field of ours to be told, but found %+v", result.Retained)
			}
		})
	}
}

// TestStateIsNotImmutable: a refusal because of what an object stands for is no reason to delete it.
func TestStateIsNotImmutable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, _ := w.CRD("Lamp")
	version := definition["spec"].(fields)["versions"].([]any)[0].(fields)
	next := (&unstructured.Unstructured{Object: version}).DeepCopy().Object
	next["name"] = "v2"
	w.Eventually("the definition to be applied", func() bool {
		result, err := w.run(manifest(copyOf(definition)))
		return err == nil && len(result.Waiting) == 0
	})
	definition["spec"].(fields)["versions"] = []any{next}
	_, err := w.run(manifest(definition, recreate))
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
	env := func(variable fields) fields {
		o := w.Deployment("web", 1)
		containers, _, _ := unstructured.NestedSlice(o, "spec", "template", "spec", "containers")
		containers[0].(fields)["env"] = []any{variable}
		o["spec"].(fields)["template"].(fields)["spec"].(fields)["containers"] = containers
		return o
	}
	w.Create(deployments, env(fields{"name": "A", "value": "1"}))
	uid := w.MustGet(deployments, "web").GetUID()
	source := fields{"fieldRef": fields{"fieldPath": "metadata.name"}}
	m := manifest(env(fields{"name": "A", "valueFrom": source}), strategy(managedresource.UpdateStrategyApply), recreate, force)
	_, err := w.run(m)
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
	w.mustRun(manifest(w.claim("data", "1Gi", fields{"storageClassName": "slow"})))
	uid := w.MustGet(claims, "data").GetUID()
	changed := manifest(w.claim("data", "1Gi", fields{"storageClassName": "fast"}))
	const lost = "its volume and the data in it"
	_, err := w.run(changed)
	w.mustFail(err, apply.ReasonImmutableField, true, "with recreate: true at manifests[0]", lost)

	recreate(&changed)
	changed.Listed = true
	_, err = w.run(changed)
	w.mustFail(err, apply.ReasonImmutableField, true, "recreate at manifests[0] does not apply", lost, "an entry of its own")
	if w.MustGet(claims, "data").GetUID() != uid {
		t.Fatal("the claim was deleted")
	}
	changed.Listed = false
	if changes := w.diff(changed); len(changes) != 1 || changes[0].Action != sdk.ActionRecreate || !strings.Contains(changes[0].Note, lost) {
		t.Errorf("expected the loss to be foreseen, but found %+v", changes)
	}
	var told []string
	plan := w.mustPlan(changed)
	plan.Recreating = func(key object.Key, lost string) {
		if w.MustGet(claims, "data").GetDeletionTimestamp() != nil {
			t.Error("it is told after the deletion")
		}
		told = append(told, key.Name+": "+lost)
	}
	if _, err := apply.Run(w.Context(), w.client, plan, w.recorded); err != nil {
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
	for name, c := range map[string]struct {
		says     string
		recreate bool
	}{
		"policy":      {says: "denied by a policy"},
		"quota":       {says: "exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=1, limited: limits.cpu=1"},
		"freed quota": {says: "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1", recreate: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.mustRun(manifest(w.selecting("web", "old")))
			w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost && r.URL.Query().Get("dryRun") != "" {
					return plugintest.Forbidden(r, c.says), nil
				}
				return nil, nil
			})
			_, err := w.run(manifest(w.selecting("web", "new"), recreate))
			if c.recreate {
				if err != nil {
					t.Errorf("expected a new object, but found %v", err)
				}
				return
			}
			w.mustFail(err, target.ReasonRejected, true, "field is immutable", c.says)
		})
	}
}

// TestSelectorIsOneValue: what a manifest lacks in a selector is a change of it, and not kept.
// Rule (manifest.md#update-strategies): A selector dropped by the manifest is a change of it, and not kept.
func TestSelectorIsOneValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []managedresource.UpdateStrategy{
		managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyPatch, managedresource.UpdateStrategyApply,
	} {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := "web-" + lower(s)
			wide := w.Deployment(name, 1)
			for _, labels := range []fields{
				wide["spec"].(fields)["selector"].(fields)["matchLabels"].(fields),
				wide["spec"].(fields)["template"].(fields)["metadata"].(fields)["labels"].(fields),
			} {
				labels["tier"] = "front"
			}
			w.mustRun(manifest(wide, strategy(s)))
			narrow := copyOf(wide)
			delete(narrow["spec"].(fields)["selector"].(fields)["matchLabels"].(fields), "tier")
			_, err := w.run(manifest(copyOf(narrow), strategy(s)))
			w.mustFail(err, apply.ReasonImmutableField, true, "spec.selector")
			w.mustRun(manifest(narrow, strategy(s), recreate))
			if selector, _, _ := nestedMap(w.MustGet(deployments, name), "spec", "selector", "matchLabels"); len(selector) != 1 {
				t.Errorf("expected the selector of the manifest, but found %v", selector)
			}
		})
	}
}
