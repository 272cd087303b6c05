package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// state is what a job finds on the target.
type state string

const (
	missing state = "missing"
	ours    state = "ours"
	others  state = "others"
	nobodys state = "nobodys"
	// adopted: Landscaper has labelled the object for an item of our name.
	adopted state = "adopted"
)

// expectation is what is to become of an object with data a and b, when the manifest has a and c.
type expectation struct {
	skipped   bool
	takenOver bool
	data      fields
	// annotated: it has the annotation of annotateBeforeCreate.
	annotated bool
	requests  []string
}

// expected is the table of policies, strategies and states.
func expected(p managedresource.Policy, s managedresource.UpdateStrategy, found state) expectation {
	untouched := fields{"a": "live", "b": "live"}
	create, change := "POST", "PUT"
	if s == byPatch || s == byApply {
		change = "PATCH"
	}
	look := []string{"POST", "GET"}
	if s == byApply {
		create = "PATCH"
	}
	// An object that may be somebody else's is looked at first: a POST that is refused is a write for nothing, in each
	// job.
	looksFirst := s == byApply || p == managedresource.PolicyFallback
	if looksFirst {
		look = []string{"GET"}
	}
	switch {
	case p == managedresource.PolicyIgnore && found == missing:
		return expectation{skipped: true}
	case p == managedresource.PolicyIgnore:
		return expectation{skipped: true, data: untouched}
	case found == missing:
		e := expectation{data: fields{"a": "manifest", "c": "manifest"}, annotated: true, requests: []string{create}}
		if looksFirst {
			e.requests = []string{"GET", create}
		}
		return e
	case p == managedresource.PolicyFallback && found != ours && found != adopted:
		return expectation{skipped: true, data: untouched, requests: look}
	case p == managedresource.PolicyImmutable:
		return expectation{data: untouched, requests: look}
	}
	e := expectation{
		takenOver: found == others, data: fields{"a": "manifest", "c": "manifest"},
		requests: append(slices.Clone(look), "dry "+change, change),
	}
	switch s {
	case byUpdate, byPatch:
	case byMerge:
		e.data = fields{"a": "live", "b": "live", "c": "manifest"}
	case byOverwrite, byApply:
		e.data["b"] = "live"
	}
	return e
}

// TestPoliciesAndStrategies applies one manifest with every policy and every strategy over every state of its object.
// Before it does, it asks for the difference.
// Rule (manifest.md#manifests, /manage-update-missing): `manage` creates an object.
// Rule (manifest.md#manifests, /manage-update-others): `manage` takes over and updates an object of another creator.
// Rule (manifest.md#manifests, /fallback-update-missing): `fallback` creates an object.
// Rule (manifest.md#manifests, /fallback-update-ours): `fallback` updates an owned object.
// Rule (manifest.md#manifests, /fallback-update-others): `fallback` does not touch an object of another owner.
// Rule (manifest.md#manifests, /keep-update-missing): `keep` creates an object.
// Rule (manifest.md#manifests, /keep-update-ours): `keep` updates an object.
// Rule (manifest.md#manifests, /immutable-update-missing): `immutable` creates an object.
// Rule (manifest.md#manifests, /immutable-update-others): `immutable` does not change an existing object.
// Rule (manifest.md#manifests, /ignore-update-missing): `ignore` creates nothing.
// Rule (manifest.md#update-strategies, /manage-apply-ours): `apply` sets the fields of the manifest, and leaves other
// fields alone.
// Rule (manifest.md#update-strategies, /manage-update-ours): `update` replaces the object, and removes fields not in
// the manifest.
// Rule (manifest.md#update-strategies, /manage-patch-ours): `patch` has the result of `update`, with a patch.
// Rule (manifest.md#update-strategies, /manage-merge-ours): `merge` only adds missing fields.
// Rule (manifest.md#update-strategies, /manage-mergeoverwrite-ours): `mergeOverwrite` overwrites fields of the
// manifest, and keeps the others.
func TestPoliciesAndStrategies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, p := range managedresource.Policies() {
		for _, s := range managedresource.UpdateStrategies() {
			for _, found := range []state{missing, ours, others, nobodys, adopted} {
				name := strings.ToLower(fmt.Sprintf("%s-%s-%s", p, s, found))
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					w := w.in(t)
					w.prepare(name, found)
					m := manifest(w.ConfigMap(name, fields{"a": "manifest", "c": "manifest"}),
						policy(p), strategy(s), force)
					m.AnnotateBeforeCreate = map[string]string{"created-by": "us"}
					w.checkAgainst(m, name, found, expected(p, s, found))
				})
			}
		}
	}
}

// prepare creates an object as the state says.
func (w *world) prepare(name string, found state) {
	w.Helper()
	labels := map[state]map[string]string{
		nobodys: {}, ours: w.by.Labels(), adopted: {upstreamLabel: "item"},
		others: {owner.Label: "elsewhere.item", upstreamLabel: "item"},
	}
	if found != missing {
		o := unstructured.Unstructured{Object: w.ConfigMap(name, fields{"a": "live", "b": "live"})}
		o.SetLabels(labels[found])
		w.Create(configMaps, o.Object)
	}
}

func (w *world) checkAgainst(m desired.Manifest, name string, found state, want expectation) {
	w.Helper()
	changes := w.diff(m)
	w.mustBeDry()
	result := w.mustRun(m)
	w.mustRequest(want.requests...)

	skipped := len(result.Skipped) == 1 && result.Skipped[0].Why != ""
	if skipped != want.skipped || skipped == (len(result.Applied) == 1) {
		w.Errorf("expected it to be skipped: %t, but found %+v", want.skipped, result)
	}
	taken := len(result.TakenOver) == 1 && result.TakenOver[0].From == `the deploy item "elsewhere.item"`
	if taken != want.takenOver {
		w.Errorf("expected it to be taken over: %t, but found %+v", want.takenOver, result.TakenOver)
	}
	if len(result.Drift) > 0 {
		w.Errorf("expected no drift the first time, but found %+v", result.Drift)
	}
	if want.data != nil {
		w.mustHave(name, want.data)
		if got := w.MustGet(configMaps, name).GetAnnotations()["created-by"] == "us"; got != want.annotated {
			w.Errorf("expected the annotation of the creation: %t, but found %t", want.annotated, got)
		}
	}
	if want.data == nil || found != missing && len(want.requests) <= 2 {
		if len(changes) > 0 {
			w.Errorf("expected no change, but found %+v", changes)
		}
		return
	}
	action := sdk.ActionUpdate
	if found == missing {
		action = sdk.ActionCreate
	}
	if len(changes) != 1 || changes[0].Action != action || (changes[0].Before == nil) != (found == missing) {
		w.Fatalf("expected one change with the action %s, but found %+v", action, changes)
	}
	if note := strings.Contains(changes[0].Note, "elsewhere.item"); note != want.takenOver {
		w.Errorf("expected a note about the other item: %t, but found %q", want.takenOver, changes[0].Note)
	}
	happened := plugintest.Fields(string(objects.Document(w.MustGet(configMaps, name))))
	if diff := cmp.Diff(happened, plugintest.Fields(string(changes[0].After))); diff != "" {
		w.Errorf("-happened +foreseen:\n%s", diff)
	}
}

// TestBecomingManaged: what immutable has left alone is written when the policy changes, although the manifest does
// not.
func TestBecomingManaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustRun(manifest(w.ConfigMap("a", fields{"a": "1"}), policy(managedresource.PolicyImmutable)))
	for range 2 {
		w.mustRun(manifest(w.ConfigMap("a", fields{"a": "2"}), policy(managedresource.PolicyImmutable)))
	}
	w.mustHave("a", fields{"a": "1"})
	if result := w.mustRun(manifest(w.ConfigMap("a", fields{"a": "2"}))); len(result.Drift) > 0 {
		t.Errorf("expected it to be written without being drift, but found %+v", result.Drift)
	}
	w.mustHave("a", fields{"a": "2"})
}

// TestOthersKeepWhatTheyAdd: whatever the strategy, finalizers and owners of others stay.
// Rule (manifest.md#update-strategies): With all strategies, finalizers and owners of other clients stay.
func TestOthersKeepWhatTheyAdd(t *testing.T) {
	each(t, func(w *world) {
		now := func(value string) {
			w.mustRun(manifest(edit(w.ConfigMap("a", fields{"a": value}), "metadata: {finalizers: [example.org/ours]}")))
		}
		now("1")
		w.Patch(configMaps, "a", `{"metadata":{"finalizers":["example.org/ours","example.org/theirs"],"ownerReferences":[
			{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"00000000-0000-0000-0000-000000000001"}]}}`)
		now("2")
		live := w.MustGet(configMaps, "a")
		if !slices.Contains(live.GetFinalizers(), "example.org/theirs") || len(live.GetOwnerReferences()) != 1 {
			w.Errorf("expected them to stay, but found %v and %v", live.GetFinalizers(), live.GetOwnerReferences())
		}
		w.Patch(configMaps, "a", `{"metadata":{"finalizers":null}}`)
	})
}
