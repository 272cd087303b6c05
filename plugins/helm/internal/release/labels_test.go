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
		labels := Want{Item: item, Installation: "a43bbe0e-0000-4000-8000-000000000000", Input: digest, Children: digest}.Labels(revision)
		for key, value := range labels {
			if problems := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); len(problems) > 0 {
				t.Fatalf("%s=%s: %v", key, value, problems)
			}
		}
		if driver.ContainsSystemLabels(labels) {
			t.Fatalf("Helm keeps some of %v to itself", labels)
		}
		if got := digestOf(labels, InputLabel, revision); got != digest || digestOf(labels, ChildrenLabel, revision) != digest || labels[ItemLabel] != item {
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
	part := func(text string) []byte { return []byte(text) }
	if once, twice := Input(part("a"), part("b")), Input(part("a"), part("b")); once != twice {
		t.Error("the same parts have different digests")
	}
	seen := map[string]string{}
	for name, digest := range map[string]string{
		"none": Input(), "empty": Input(part("")), "two empty": Input(part(""), part("")), "a, b": Input(part("a"), part("b")), "ab": Input(part("ab")),
		"b, a": Input(part("b"), part("a")), "ab and nothing": Input(part("ab"), part("")), "nothing and ab": Input(part(""), part("ab")),
	} {
		if other, ok := seen[digest]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[digest] = name
	}
}

// TestStatuses: they are Helm's.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for ours, helms := range map[Status]helmrelease.Status{
		StatusUnknown: helmrelease.StatusUnknown, StatusDeployed: helmrelease.StatusDeployed, StatusUninstalled: helmrelease.StatusUninstalled,
		StatusSuperseded: helmrelease.StatusSuperseded, StatusFailed: helmrelease.StatusFailed, StatusUninstalling: helmrelease.StatusUninstalling,
		StatusPendingInstall: helmrelease.StatusPendingInstall, StatusPendingUpgrade: helmrelease.StatusPendingUpgrade,
		StatusPendingRollback: helmrelease.StatusPendingRollback,
	} {
		if string(ours) != string(helms) {
			t.Errorf("expected %s, but found %s", helms, ours)
		}
	}
}
