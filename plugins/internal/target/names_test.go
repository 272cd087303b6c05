package target

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMappingByName(t *testing.T) {
	t.Parallel()
	client := newTestClient(t, &apiServer{groups: map[string][]metav1.APIResource{
		"example.org/v2": {
			{Name: "fishes/status", Kind: "Fish"},
			{Name: "fishes", SingularName: "fish", Kind: "Fish", Namespaced: true},
			{Name: "oldies", Kind: "Oldie"}, // older servers tell no singular name
		},
		"other.org/v1": {{Name: "gadgets", SingularName: "gadget", Kind: "Gadget"}},
	}})
	for _, c := range []struct {
		reason               string
		group, version, name string
		kind, wantVersion    string
	}{
		{reason: "the kind itself", group: "example.org", version: "v2", name: "Fish", kind: "Fish", wantVersion: "v2"},
		{reason: "the plural", group: "example.org", version: "v2", name: "fishes", kind: "Fish", wantVersion: "v2"},
		{reason: "the singular", group: "example.org", version: "v2", name: "fish", kind: "Fish", wantVersion: "v2"},
		{reason: "any case", group: "example.org", version: "v2", name: "FiShEs", kind: "Fish", wantVersion: "v2"},
		{
			reason: "a version that is not served", group: "example.org", version: "v1", name: "fishes", kind: "Fish",
			wantVersion: "v2",
		},
		{reason: "no version", group: "example.org", name: "fishes", kind: "Fish", wantVersion: "v2"},
		{
			reason: "no singular name is served", group: "example.org", version: "v2", name: "oldie", kind: "Oldie",
			wantVersion: "v2",
		},
		{reason: "no name is not a name", group: "example.org", version: "v2"},
		{reason: "another group", group: "other.org", version: "v1", name: "fishes"},
		{reason: "a subresource", group: "example.org", version: "v2", name: "fishes/status"},
		{reason: "unknown", group: "example.org", version: "v2", name: "Fishs"},
	} {
		kind, m, err := client.MappingByName(t.Context(), gvk(c.group, c.version, c.name), time.Now())
		if c.kind == "" {
			if !meta.IsNoMatchError(err) {
				t.Errorf("%s: expected that the kind is unknown, but found %v and %v", c.reason, kind, err)
			}
			continue
		}
		if err != nil || kind != gvk(c.group, c.wantVersion, c.kind) {
			t.Errorf("%s: expected %s in %s, but found %v and %v", c.reason, c.kind, c.wantVersion, kind, err)
		}
		if m.Resource.Version != c.wantVersion || m.Resource.Group != c.group || m.Namespaced != (c.kind == "Fish") {
			t.Errorf("%s: expected the mapping of %s, but found %v", c.reason, kind, m)
		}
	}
}

// TestNamesInSeveralVersions has a resource in two versions, and one in the older only.
func TestNamesInSeveralVersions(t *testing.T) {
	t.Parallel()
	widget := metav1.APIResource{Name: "widgets", SingularName: "widget", Kind: "Widget"}
	k := newKinds([]*metav1.APIResourceList{
		{GroupVersion: "example.org/v2", APIResources: []metav1.APIResource{widget}},
		{GroupVersion: "example.org/v1", APIResources: []metav1.APIResource{widget, {Name: "gadgets", Kind: "Gadget"}}},
		{GroupVersion: "example.org.elsewhere/v1", APIResources: []metav1.APIResource{{Name: "others", Kind: "Other"}}},
	})
	for _, c := range []struct{ reason, version, name, want string }{
		{reason: "the version that is asked for", version: "v1", name: "widgets", want: "v1"},
		{reason: "the preferred one", version: "v3", name: "widget", want: "v2"},
		{reason: "the only one", version: "v2", name: "gadgets", want: "v1"},
	} {
		kind, m, ok := k.named(gvk("example.org", c.version, c.name))
		if !ok || kind.Version != c.want || m.Resource.Version != c.want {
			t.Errorf("%s: expected version %s, but found %v and %v", c.reason, c.want, kind, m)
		}
	}
	for _, group := range []string{"", "example.org"} {
		if kind, _, ok := k.named(gvk(group, "v1", "others")); ok {
			t.Errorf("expected no kind of another group in %q, but found %v", group, kind)
		}
	}
	if m, ok := k.exact(gvk("example.org", "", "Widget")); ok {
		t.Errorf("expected that no version is none, but found %v", m)
	}
}
