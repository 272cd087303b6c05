package providerconfig_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
)

// scheduled has a schedule, unscheduled has none.
type scheduled struct {
	Name                string                               `json:"name"`
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile"`
}

type unscheduled struct {
	Name string `json:"name"`
}

// A version has schedules if its documents have the field, whatever its age.
func TestScheduleOfVersions(t *testing.T) {
	t.Parallel()
	format := providerconfig.Format[unscheduled, unscheduled]{
		Kind: "A",
		Versions: []providerconfig.Version[unscheduled]{
			providerconfig.Newest[unscheduled]("example.org/v2"),
			providerconfig.Older("example.org/v1", func(o *scheduled) *unscheduled { return &unscheduled{Name: o.Name} }),
		},
	}
	for version, want := range map[string]bool{"v2": false, "v1": true, "v0": false} {
		config := `{"apiVersion":"example.org/` + version + `","kind":"A","continuousReconcile":{"every":"1h"}}`
		schedule, err := format.ScheduleOf(requestOf(config).DeployItem)
		if (schedule != nil) != want || err != nil {
			t.Errorf("%s: expected a schedule: %t, but found %v and %v", version, want, schedule, err)
		}
	}
}

// A document needs apiVersion and kind, although its Go type has plain fields for them.
func TestMissingKind(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{true, false} {
		for config, want := range map[string]string{
			`{"domain": "example.org"}`: "spec.config: apiVersion: Required value: expected v2 or v1; " +
				"kind: Required value: expected Zone",
			`{"apiVersion": 2, "kind": "Zone", "domain": "example.org"}`: "spec.config: apiVersion: expected a text, " +
				"but found a number",
		} {
			_, err := zones.Read(requestOf(config), strict)
			if err == nil || err.Error() != want {
				t.Errorf("%s: expected %q, but found %v", config, want, err)
			}
		}
	}
}

// listed has a list that may also be written as a single entry.
type listed struct {
	metav1.TypeMeta `json:",inline"`

	Entries []unscheduled `json:"entries"`
}

// A document with another form has its problems at the paths that are written.
func TestRewrite(t *testing.T) {
	t.Parallel()
	format := providerconfig.Format[listed, listed]{
		Kind:     "A",
		Versions: []providerconfig.Version[listed]{providerconfig.Newest[listed]("example.org/v1")},
		Rewrite: func(document []byte) (rewritten []byte, written func(path string) string) {
			text := strings.TrimSuffix(strings.Replace(string(document), `"entries":`, `"entries":[`, 1), "}") + "]}"
			return []byte(text), func(path string) string { return strings.Replace(path, "entries[0]", "entries", 1) }
		},
		Validate: func(d *providerconfig.Document[listed]) (*listed, field.ErrorList) {
			return d.Config, field.ErrorList{field.Required(d.At("entries[0].text"), "")}
		},
	}
	_, err := format.Read(requestOf(`{"apiVersion":"example.org/v1","kind":"A","entries":{"name":5,"nam":"a"}}`), true)
	if err == nil {
		t.Fatal("expected problems")
	}
	var fields []string
	for _, p := range sdk.ProblemsOf(err) {
		fields = append(fields, p.Field)
	}
	if diff := cmp.Diff([]string{"entries.name", "entries.text", "entries.nam"}, fields); diff != "" {
		t.Errorf("fields of the problems, -want +got:\n%s", diff)
	}
	want := []string{
		"spec.config: entries.name: expected a text, but found a number", "entries.text: Required value",
		`unknown field "entries.nam"`, "did you mean name?",
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "; ")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
