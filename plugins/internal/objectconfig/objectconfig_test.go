package objectconfig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/objectconfig"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/providerconfig"
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
	objectconfig.Objects

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
	Rewrite: objectconfig.RewriteExports,
	Validate: func(d *providerconfig.Document[configuration]) (*content, field.ErrorList) {
		objects, problems := objectconfig.Shared{
			UpdateStrategy: d.Config.UpdateStrategy, IgnoreDifferences: d.Config.IgnoreDifferences,
			ReadinessChecks: d.Config.ReadinessChecks, ContinuousReconcile: d.Config.ContinuousReconcile,
			DeletionGroups: d.Config.DeletionGroups, DeletionGroupsDuringUpdate: d.Config.DeletionGroupsDuringUpdate,
		}.Parse()
		exports, p := export.Parse(d.Config.Exports, d.At(objectconfig.ExportsPath))
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
			_, err := format.Read(&sdk.Request{DeployItem: itemWith(document)}, strict)
			problems := sdk.ProblemsOf(err)
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

// TestScheduleOf: the rest of the configuration does not count, and a caller ignores an invalid schedule.
func TestScheduleOf(t *testing.T) {
	t.Parallel()
	const v1, v2 = `{"apiVersion":"example.org/v1","kind":"Configuration",`, `{"apiVersion":"example.org/v2","kind":`
	for name, tc := range map[string]struct {
		config string
		want   *managedresource.ContinuousReconcile
		wrong  bool
	}{
		"none":  {v2 + `"Configuration","title":"a"}`, nil, false},
		"every": {v2 + `"Configuration","continuousReconcile":{"every":"1h"},"title":5}`, &schedule{Every: "1h"}, false},
		"cron": {
			v2 + `"Configuration","continuousReconcile":{"cron":"CRON_TZ=UTC"}}`, &schedule{Cron: "CRON_TZ=UTC"}, true,
		},
		"both": {
			v2 + `"Configuration","continuousReconcile":{"cron":"@daily","every":"1h"}}`,
			&schedule{Cron: "@daily", Every: "1h"}, true,
		},
		"type":             {v2 + `"Configuration","continuousReconcile":"hourly"}`, nil, true},
		"kind":             {v2 + `"Other","continuousReconcile":{"every":"1h"}}`, nil, false},
		"older version":    {v1 + `"continuousReconcile":{"every":"1h"}}`, nil, false},
		"no configuration": {"", nil, false},
	} {
		item := itemWith([]byte(tc.config))
		if tc.config == "" {
			item = itemWith(nil)
		}
		got, err := format.ScheduleOf(item)
		if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.wrong {
			t.Errorf("%s: found error %v and schedule (-want +got):\n%s", name, err, diff)
		}
	}
}

type schedule = managedresource.ContinuousReconcile

// TestReadDeletionGroups: a mistake in the groups may exempt objects or take too many; others prevent no deletion.
func TestReadDeletionGroups(t *testing.T) {
	t.Parallel()
	const unknown = `{"deletionGroups":[{"predefinedResourceGroup":{"type":"crds","forceDelet":true}}]}`
	for _, tc := range []struct {
		config string
		strict bool
		want   string
	}{
		{`{"title":5,"kind":7}`, true, ""},
		{`{`, true, ""},
		{unknown, false, ""},
		{unknown, true, `unknown field "[0].predefinedResourceGroup.forceDelet"; did you mean forceDelete?`},
		{`{"deletionGroups":[{}]}`, false, "spec.config: deletionGroups[0]: Required"},
		{`{"deletionGroups":5}`, false, "spec.config: deletionGroups: "},
	} {
		_, err := objectconfig.ReadDeletionGroups(&sdk.Request{DeployItem: itemWith([]byte(tc.config))}, tc.strict)
		if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: expected %q, but found %v", tc.config, tc.want, err)
		}
	}
}
