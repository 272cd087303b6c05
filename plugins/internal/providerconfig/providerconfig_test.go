package providerconfig_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/providerconfig"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/test/configtest"
)

// configuration is the newest version of a provider configuration, older is the older one.
type configuration struct {
	metav1.TypeMeta `json:",inline"`

	Title                      string                                      `json:"title"`
	UpdateStrategy             managedresource.UpdateStrategy              `json:"updateStrategy"`
	IgnoreDifferences          []managedresource.IgnoreDifferences         `json:"ignoreDifferences"`
	ReadinessChecks            managedresource.ReadinessCheckConfiguration `json:"readinessChecks"`
	ContinuousReconcile        *managedresource.ContinuousReconcile        `json:"continuousReconcile"`
	DeletionGroups             []managedresource.DeletionGroup             `json:"deletionGroups"`
	DeletionGroupsDuringUpdate []managedresource.DeletionGroup             `json:"deletionGroupsDuringUpdate"`
	Exports                    *managedresource.Exports                    `json:"exports"`
}

type older struct {
	metav1.TypeMeta `json:",inline"`

	Name string `json:"name"`
}

type content struct {
	providerconfig.Objects

	title   string
	exports []export.Value
	unknown []string
}

var format = providerconfig.Format[configuration, content]{
	Kind: "Configuration",
	Versions: []providerconfig.Version[configuration]{
		providerconfig.Newest[configuration]("example.org/v2"),
		providerconfig.Older("example.org/v1", func(o *older) *configuration { return &configuration{Title: o.Name} }),
	},
	Undecodable: func(document []byte) []sdk.Problem {
		if slices.Contains(document, '!') {
			return []sdk.Problem{{Field: "title", Message: "too loud"}}
		}
		return nil
	},
	Validate: func(d *providerconfig.Document[configuration]) (*content, field.ErrorList) {
		objects, problems := providerconfig.Shared{
			UpdateStrategy: d.Config.UpdateStrategy, IgnoreDifferences: d.Config.IgnoreDifferences,
			ReadinessChecks: d.Config.ReadinessChecks, ContinuousReconcile: d.Config.ContinuousReconcile,
			DeletionGroups: d.Config.DeletionGroups, DeletionGroupsDuringUpdate: d.Config.DeletionGroupsDuringUpdate,
		}.Parse()
		exports, p := export.Parse(d.Config.Exports, d.Exports)
		if d.Config.Title == "" {
			p = append(p, field.Required(field.NewPath("title"), ""))
		}
		return &content{unknown: d.Unknown, Objects: objects, title: d.Config.Title, exports: exports}, append(problems, p...)
	},
}

func itemWith(document []byte) *landscaper.DeployItem {
	item := &landscaper.DeployItem{}
	if document != nil {
		item.Spec.Config = &runtime.RawExtension{Raw: document}
	}
	return item
}

func TestFormat(t *testing.T) {
	t.Parallel()
	configtest.Suite{
		Files: "testdata/*.yaml",
		Read: func(t *testing.T, document []byte, strict bool) []sdk.Problem {
			t.Helper()
			problems, err := format.Problems(document, strict)
			if err != nil {
				t.Fatal(err)
			}
			_, err = format.Read(&sdk.Request{DeployItem: itemWith(document)}, strict)
			configtest.MustAgree(t, problems, err)
			return problems
		},
	}.Run(t)
}

func TestRead(t *testing.T) {
	t.Parallel()
	c, err := format.Read(&sdk.Request{DeployItem: itemWith([]byte(
		`{"apiVersion":"example.org/v1","kind":"Configuration","name":"a","nam":"b"}`))}, false)
	if err != nil || c.title != "a" {
		t.Errorf("expected the title of the older version, but found %+v and %v", c, err)
	}
	if diff := cmp.Diff([]string{`unknown field "nam"; did you mean name?`}, c.unknown); diff != "" {
		t.Errorf("unknown fields: -want +got:\n%s", diff)
	}
	const list = `{"apiVersion":"example.org/v2","kind":"Configuration","title":"a",` +
		` "exports" : [ {"key":"a","jsonPath":".x","fromResource":{"apiVersion":"v1","kind":"A","name":"a"}} ] ,` +
		` "updateStrategy":"patch" }`
	c, err = format.Read(&sdk.Request{DeployItem: itemWith([]byte(list))}, true)
	if err != nil || len(c.unknown) > 0 || len(c.exports) != 1 || c.UpdateStrategy != "patch" {
		t.Errorf("expected one export and the field after it, but found %+v, error %v", c, err)
	}
}

// TestReadWithoutConfiguration: an item may have anything, or nothing, for its configuration.
func TestReadWithoutConfiguration(t *testing.T) {
	t.Parallel()
	for _, document := range [][]byte{nil, {}, []byte("{"), []byte("[]"), []byte(`"text"`), []byte("{}"), []byte("null")} {
		_, err := format.Read(&sdk.Request{DeployItem: itemWith(document)}, true)
		configtest.MustAgree(t, []sdk.Problem{{Field: "spec.config", Message: "spec.config"}}, err)
	}
}

func TestScheduleOf(t *testing.T) {
	t.Parallel()
	const head = `{"apiVersion":"example.org/v2","kind":"Configuration",`
	for name, tc := range map[string]struct {
		reason, config string
		want           *managedresource.ContinuousReconcile
		wrong          bool
	}{
		"none": {reason: "schedules are optional", config: head + `"title":"a"}`},
		"every": {
			reason: "an interval is a schedule, and the rest of the configuration does not count",
			config: head + `"continuousReconcile":{"every":"1h"},"title":5}`,
			want:   &managedresource.ContinuousReconcile{Every: "1h"},
		},
		"bad": {
			reason: "a caller ignores an invalid one", config: head + `"continuousReconcile":{"cron":"CRON_TZ=UTC"}}`,
			wrong: true, want: &managedresource.ContinuousReconcile{Cron: "CRON_TZ=UTC"},
		},
		"both": {
			reason: "it is invalid", config: head + `"continuousReconcile":{"cron":"@daily","every":"1h"}}`,
			wrong: true, want: &managedresource.ContinuousReconcile{Cron: "@daily", Every: "1h"},
		},
		"type": {reason: "so is an unreadable one", config: head + `"continuousReconcile":"hourly"}`, wrong: true},
		"kind": {
			reason: "another document has another meaning",
			config: `{"apiVersion":"example.org/v2","kind":"Other","continuousReconcile":{"every":"1h"}}`,
		},
		"older version": {
			reason: "it has no schedules",
			config: `{"apiVersion":"example.org/v1","kind":"Configuration","continuousReconcile":{"every":"1h"}}`,
		},
		"no configuration": {reason: "there is nothing to read"},
	} {
		item := itemWith([]byte(tc.config))
		if tc.config == "" {
			item = itemWith(nil)
		}
		got, err := format.ScheduleOf(item)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.wrong {
			t.Errorf("%s: %s: found error %v and schedule (-want +got):\n%s", name, tc.reason, err, diff)
		}
	}
}

func TestReadDeletionGroups(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason, config string
		strict         bool
		want           string
	}{
		"mistakes elsewhere": {reason: "they do not prevent a deletion", config: `{"title":5,"kind":7}`, strict: true},
		"no JSON":            {reason: "an unreadable configuration has no groups", config: `{`, strict: true},
		"mistake": {
			reason: "groups may exempt objects", config: `{"deletionGroups":[{}]}`,
			want: "spec.config: deletionGroups[0]: Required",
		},
		"type": {reason: "groups may exempt objects", config: `{"deletionGroups":5}`, want: "spec.config: deletionGroups: "},
		"unknown field": {
			reason: "a group may take too much", strict: true,
			config: `{"deletionGroups":[{"predefinedResourceGroup":{"type":"crds","forceDelet":true}}]}`,
			want: `spec.config: deletionGroups: unknown field "[0].predefinedResourceGroup.forceDelet"; ` +
				`did you mean forceDelete?`,
		},
		"ignored field": {
			reason: "without strict it is ignored, here, too",
			config: `{"deletionGroups":[{"predefinedResourceGroup":{"type":"crds","forceDelet":true}}]}`,
		},
	} {
		_, err := providerconfig.ReadDeletionGroups(&sdk.Request{DeployItem: itemWith([]byte(tc.config))}, tc.strict)
		var found []sdk.Problem
		if err != nil {
			found = []sdk.Problem{{Message: err.Error()}}
		}
		var want []string
		if tc.want != "" {
			want = []string{tc.want}
		}
		t.Run(name, func(t *testing.T) {
			configtest.MustFind(t, found, want)
			if t.Failed() {
				t.Log(tc.reason)
			}
		})
	}
}
