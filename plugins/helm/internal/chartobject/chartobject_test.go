package chartobject_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartobject"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// objectOf is an object of a template.
func objectOf(source, document string) helm.Object {
	return helm.Object{Source: source, JSON: json.RawMessage(document)}
}

const (
	plain = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	web   = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}`
	list  = `{"apiVersion":"v1","kind":"List","items":[` +
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}},` +
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}]}`
)

// TestChildren: each object has a name, also an item of a list. The object of an HTTP hook takes its place, with its
// template.
func TestChildren(t *testing.T) {
	t.Parallel()
	objects := []helm.Object{objectOf("one", plain), objectOf("two", list), objectOf("three", web)}
	children, err := chartobject.Children(objects)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range children {
		names = append(names, children[i].Name)
		changed := strings.Replace(string(children[i].Object), `"metadata":{`, `"metadata":{"labels":{"hook":"yes"},`, 1)
		children[i].Object = json.RawMessage(changed)
	}
	want := []string{"ConfigMap a", "ConfigMap b", "ConfigMap c", "Deployment.apps shop/web"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	replaced, err := chartobject.Replace(objects, children)
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, o := range replaced {
		sources = append(sources, o.Source)
		if !strings.Contains(string(o.JSON), `"hook":"yes"`) {
			t.Errorf("expected the object of the hook, but found %s", o.JSON)
		}
	}
	if diff := cmp.Diff([]string{"one", "two", "two", "three"}, sources); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if same, err := chartobject.Replace(objects, nil); err != nil || !cmp.Equal(same, objects) {
		t.Errorf("without children: expected the objects as they are, but found %v, %v", same, err)
	}
}

// TestInvalid: mistakes of a chart name the template.
func TestInvalid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason  string
		objects []helm.Object
		says    string
	}{
		"no object": {
			reason: "a kind is missing", objects: []helm.Object{objectOf("chart/one.yaml", `{"apiVersion":"v1"}`)},
			says: "chart/one.yaml.kind",
		},
		"twice": {
			reason:  "names of children are unique",
			objects: []helm.Object{objectOf("chart/one.yaml", plain), objectOf("chart/two.yaml", plain)},
			says:    "chart/two.yaml: the chart has another ConfigMap a",
		},
	} {
		_, err := chartobject.Children(c.objects)
		var refused *sdk.Error
		if !errors.As(err, &refused) || refused.Reason != "RenderedInvalid" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %s: expected %q, but found %v", name, c.reason, c.says, err)
		}
	}
}

// TestPolicies: Helm keeps an object by its manifest in any case of letters when it uninstalls a release, and by the
// live object to the letter when the chart drops the object.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for annotation, c := range map[string]struct {
		policy managedresource.Policy
		live   bool
	}{
		"keep":   {managedresource.PolicyKeep, true},
		"Keep ":  {managedresource.PolicyKeep, false}, //nolint:gocritic // Helm trims it
		"delete": {managedresource.PolicyManage, false}, "": {managedresource.PolicyManage, false},
	} {
		annotated := `"name":"a","annotations":{"helm.sh/resource-policy":"` + annotation + `"}`
		document := strings.Replace(plain, `"name":"a"`, annotated, 1)
		manifests, err := chartobject.Manifests([]helm.Object{objectOf("one", document)}, "shop", nil)
		if err != nil {
			t.Fatal(err)
		}
		m := manifests[0]
		entry := managedresource.ManagedResourceStatus{Policy: m.Policy}
		if m.Policy != c.policy || m.DefaultNamespace != "shop" {
			t.Errorf("%q: expected the policy %s in namespace shop, but found %s in %s",
				annotation, c.policy, m.Policy, m.DefaultNamespace)
		}
		if kept := chartobject.KeptByPolicy(entry, m.Object) != ""; kept != (c.policy == managedresource.PolicyKeep) {
			t.Errorf("%q: kept at the end: %t", annotation, kept)
		}
		if kept := chartobject.KeptByAnnotation(entry, m.Object) != ""; kept != c.live {
			t.Errorf("%q: kept when it is dropped: %t", annotation, kept)
		}
	}
}
