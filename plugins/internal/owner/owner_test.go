package owner_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

const upstream = "manifest.deployer.landscaper.gardener.cloud/deployitem"

func labelled(labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetLabels(labels)
	return o
}

func TestOf(t *testing.T) {
	t.Parallel()
	by := owner.Owner{
		Namespace: "shop", Name: "web", UpstreamLabel: upstream, Installation: "here", Accepted: []string{"before"},
	}
	type labels = map[string]string
	const shop = `the deploy item "shop.web"`
	for name, c := range map[string]struct {
		reason string
		labels labels
		mark   string
		want   owner.Relation
		taken  bool
		says   string
	}{
		"none":         {"nobody has labelled it", nil, "", owner.Nobodys, false, ""},
		"other labels": {"they say nothing", labels{"app": "web"}, "", owner.Nobodys, false, ""},
		"ours":         {"the label has namespace and name", by.Labels(), "", owner.Ours, false, shop},
		"marked":       {"the mark is that of the installation", by.Labels(), "here", owner.Ours, false, shop},
		"adopted": {
			"Landscaper has labelled it for the name", labels{upstream: "web"}, "", owner.Ours, false,
			`the deploy item "web"`,
		},
		"another name": {
			"Landscaper has labelled it for another", labels{upstream: "db"}, "", owner.Others, false,
			`the deploy item "db"`,
		},
		"other namespace": {
			"the name alone is not enough", labels{owner.Label: "yard.web", upstream: "web"}, "", owner.Others, true,
			`the deploy item "yard.web"`,
		},
		"both": {"our label counts more", labels{owner.Label: "shop.web", upstream: "db"}, "", owner.Ours, false, shop},
		"empty": {
			"an empty label has an owner", labels{owner.Label: ""}, "", owner.Others, true, `the deploy item ""`,
		},
		"elsewhere": {
			"another control plane has an item of that name", by.Labels(), "there", owner.Foreign, true,
			shop + " of the installation there",
		},
		"from elsewhere": {
			"the item was in that control plane itself", by.Labels(), "before", owner.Ours, false,
			shop + " of the installation before",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := labelled(c.labels)
			if c.mark != "" {
				o.SetAnnotations(map[string]string{owner.InstallationAnnotation: c.mark})
			}
			if got := by.Of(o); got != c.want || by.IsTaken(o) != c.taken {
				t.Errorf("%s: expected %d and %t, but found %d and %t", c.reason, c.want, c.taken, got, by.IsTaken(o))
			}
			if got := by.Describe(o); got != c.says {
				t.Errorf("%s: expected it to say %q, but found %q", c.reason, c.says, got)
			}
			unknowing := by
			unknowing.Installation = ""
			if unknowing.Of(o) == owner.Foreign {
				t.Error("an owner that does not know its installation takes none for another one")
			}
		})
	}
}

func TestWithoutUpstreamLabel(t *testing.T) {
	t.Parallel()
	by := owner.Owner{Namespace: "shop", Name: "web"}
	if labels := by.Labels(); len(labels) != 1 || labels[owner.Label] != "shop.web" {
		t.Errorf("expected one label, but found %v", labels)
	}
	if got := by.Of(labelled(map[string]string{upstream: "web"})); got != owner.Nobodys {
		t.Errorf("expected a label of which the owner knows nothing to say nothing, but found %d", got)
	}
}

// TestLabels: whatever the names, the labels are valid, an owner recognises its own objects, and no other owner does.
// TestObjectOfRelease: the label of a deploy item counts more than the name of a release, which a release removes in a
// takeover.
// Rule (manifest.md#managed-resources): An object belongs to a Helm release that it names if it has no item's label.
func TestObjectOfRelease(t *testing.T) {
	t.Parallel()
	by := owner.Owner{Namespace: "shop", Name: "web", UpstreamLabel: upstream, Installation: "here"}
	release := by
	release.ByRelease = true
	for name, c := range map[string]struct {
		by     owner.Owner
		labels map[string]string
		want   owner.Relation
		taken  bool
		says   string
	}{
		"of the release":      {by, nil, owner.Others, true, "release shop/helm"},
		"labelled":            {by, by.Labels(), owner.Ours, false, `the deploy item "shop.web"`},
		"Landscaper's label":  {by, map[string]string{upstream: "web"}, owner.Ours, false, `the deploy item "web"`},
		"the item's releases": {release, nil, owner.Nobodys, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := labelled(c.labels)
			o.SetAnnotations(map[string]string{owner.ReleaseName: "helm", owner.ReleaseNamespace: "shop"})
			if got, taken := c.by.Of(o), c.by.IsTaken(o); got != c.want || taken != c.taken {
				t.Errorf("expected %d and %t, but found %d and %t", c.want, c.taken, got, taken)
			}
			if got := c.by.Describe(o); got != c.says {
				t.Errorf("expected it to say %q, but found %q", c.says, got)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	// What deploy items can be called: a DNS label for the namespace, a DNS subdomain for the name.
	names := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?`)
	items := rapid.Custom(func(t *rapid.T) owner.Owner {
		parts := rapid.SliceOfN(names, 1, 3).Draw(t, "parts")
		return owner.Owner{Namespace: names.Draw(t, "namespace"), Name: strings.Join(parts, "."), UpstreamLabel: upstream}
	})
	rapid.Check(t, func(t *rapid.T) {
		one, two := items.Draw(t, "one"), items.Draw(t, "two")
		for key, value := range one.Labels() {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Fatalf("%s: %q: %v", key, value, problems)
			}
		}
		if got := one.Of(labelled(one.Labels())); got != owner.Ours {
			t.Fatalf("expected an owner to recognise its object, but found %d", got)
		}
		if (one.Namespace != two.Namespace || one.Name != two.Name) && one.Of(labelled(two.Labels())) != owner.Others {
			t.Fatalf("%v takes an object of %v for its own", one, two)
		}
		// Names that differ only at the end have the same beginning.
		longer := one
		longer.Name += "x"
		if one.Of(labelled(longer.Labels())) != owner.Others {
			t.Fatalf("%v takes an object of %v for its own", one, longer)
		}
	})
}
