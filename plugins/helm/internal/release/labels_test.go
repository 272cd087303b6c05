package release

import (
	"math"
	"testing"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// TestLabels: they fit, Helm lets callers set them, and they are read as they were written, on no other revision.
func TestLabels(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?`)
		item := owner.Owner{Namespace: name.Draw(t, "namespace"), Name: name.Draw(t, "name")}.Labels()[owner.Label]
		revision, other := rapid.IntRange(1, math.MaxInt).Draw(t, "revision"), rapid.IntRange(1, 200).Draw(t, "other")
		digest := Input([]byte(rapid.String().Draw(t, "input")))
		want := Want{Item: item, Installation: "a43bbe0e-0000-4000-8000-000000000000", Input: digest, Children: digest}
		labels := want.Labels(revision)
		for key, value := range labels {
			problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
			if len(problems) > 0 {
				t.Fatalf("%s=%s: %v", key, value, problems)
			}
		}
		if driver.ContainsSystemLabels(labels) {
			t.Fatalf("Helm keeps some of %v to itself", labels)
		}
		if got := digestOf(labels, InputLabel, revision); got != digest ||
			digestOf(labels, ChildrenLabel, revision) != digest || labels[ItemLabel] != item {
			t.Fatalf("expected %s and %s, but found %s and %s", digest, item, got, labels[ItemLabel])
		}
		if got := digestOf(labels, InputLabel, other); other != revision && got != "" {
			t.Fatalf("expected that the label of revision %d says nothing of %d, but found %s", revision, other, got)
		}
		if _, ok := (Want{Item: item, Input: digest}).Labels(revision)[ChildrenLabel]; ok {
			t.Fatal("expected no label about children without any")
		}
	})
}

func TestInput(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"a", "b"}, {"ab"}, {"b", "a"}, {"ab", ""}, {"", "ab"}} {
		var content [][]byte
		for _, part := range parts {
			content = append(content, []byte(part))
		}
		digest := Input(content...)
		if other, ok := seen[digest]; ok || digest != Input(content...) {
			t.Errorf("%q and %q have the same digest, or the same parts different ones", other, parts)
		}
		seen[digest] = parts
	}
}

// TestStatuses: they are Helm's.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for ours, helms := range map[Status]helmrelease.Status{
		StatusUnknown: helmrelease.StatusUnknown, StatusDeployed: helmrelease.StatusDeployed,
		StatusUninstalled: helmrelease.StatusUninstalled, StatusSuperseded: helmrelease.StatusSuperseded,
		StatusFailed: helmrelease.StatusFailed, StatusUninstalling: helmrelease.StatusUninstalling,
		StatusPendingInstall: helmrelease.StatusPendingInstall, StatusPendingUpgrade: helmrelease.StatusPendingUpgrade,
		StatusPendingRollback: helmrelease.StatusPendingRollback,
	} {
		if string(ours) != string(helms) {
			t.Errorf("expected %s, but found %s", helms, ours)
		}
	}
}
