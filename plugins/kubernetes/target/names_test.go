package target

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMappingByName(t *testing.T) {
	t.Parallel()
	client := clientOf(t, &apiServer{groups: map[string][]metav1.APIResource{
		"example.org/v2": {
			{Name: "fishes/status", Kind: "Fish"},
			{Name: "fishes", SingularName: "fish", Kind: "Fish", Namespaced: true},
			{Name: "oldies", Kind: "Oldie"}, // older servers tell no singular name
		},
		"other.org/v1": {{Name: "gadgets", SingularName: "gadget", Kind: "Gadget"}},
	}})
	for _, c := range []struct {
		reason, group, version, name string
		kind                         string // empty for an unknown one
	}{
		{"the kind itself", "example.org", "v2", "Fish", "Fish"},
		{"the plural", "example.org", "v2", "fishes", "Fish"},
		{"the singular", "example.org", "v2", "fish", "Fish"},
		{"any case", "example.org", "v2", "FiShEs", "Fish"},
		{"a version that is not served", "example.org", "v1", "fishes", "Fish"},
		{"no version", "example.org", "", "fishes", "Fish"},
		{"no singular name is served", "example.org", "v2", "oldie", "Oldie"},
		{"no name is not a name", "example.org", "v2", "", ""},
		{"another group", "other.org", "v1", "fishes", ""},
		{"a subresource", "example.org", "v2", "fishes/status", ""},
		{"unknown", "example.org", "v2", "Fishs", ""},
	} {
		kind, m, err := client.MappingByName(t.Context(), gvk(c.group, c.version, c.name), time.Now())
		if c.kind == "" {
			if !meta.IsNoMatchError(err) {
				t.Errorf("%s: expected that the kind is unknown, but found %v and %v", c.reason, kind, err)
			}
			continue
		}
		if err != nil || kind != gvk(c.group, "v2", c.kind) || m.Resource.Version != "v2" || m.Resource.Group != c.group ||
			m.Namespaced != (c.kind == "Fish") {
			t.Errorf("%s: expected %s in v2, but found %v, %v and %v", c.reason, c.kind, kind, m, err)
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
		{"the version that is asked for", "v1", "widgets", "v1"},
		{"the preferred one", "v3", "widget", "v2"},
		{"the only one", "v2", "gadgets", "v1"},
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
