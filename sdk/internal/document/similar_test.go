package document

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Policy string            `json:"policy"`
	Labels map[string]string `json:"labels"`
}

// configuration has a field of each kind. The field Exports of the embedded struct is hidden.
type configuration struct {
	embedded `json:",inline"`

	Exports    []inner            `json:"exports"`
	Inner      *inner             `json:"inner"`
	ByName     map[string]inner   `json:"byName"`
	ListByName map[string][]inner `json:"listByName"`
	When       time.Time          `json:"when"`
	Config     string             `json:"config"`
	Ref        string             `json:"ref,omitempty"`
	Secret     string             `json:"-"`
	Untagged   string
}

type embedded struct {
	UpdateStrategy             string            `json:"updateStrategy"`
	DeletionGroups             []string          `json:"deletionGroups"`
	DeletionGroupsDuringUpdate []string          `json:"deletionGroupsDuringUpdate"`
	Exports                    struct{ Hid int } `json:"exports"`
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct{ reason, want string }{
		"updateStategy":             {"a character is missing", "updateStrategy"},
		"updateStrategies":          {"an ending is wrong", "updateStrategy"},
		"UPDATESTRATEGY":            {"the case is wrong", "updateStrategy"},
		"rfe":                       {"two characters are exchanged", "ref"},
		"conf":                      {"an abbreviation may miss a third of the name", "config"},
		"x":                         {"a hidden field has no name", ""},
		"xyz":                       {"no field of this length has a character in common", ""},
		"strategy":                  {"more than a third is missing", ""},
		"untaged":                   {"a field without a name in JSON has that of Go", "Untagged"},
		"secret":                    {"a field may be kept out of documents", ""},
		"deletionGroupsDuringUpdat": {"the nearer of two similar fields", "deletionGroupsDuringUpdate"},
		"inner.polici":              {"within an object", "policy"},
		"exports[12].polici":        {"within a list, and not within the hidden field", "policy"},
		"exports[0].hid":            {"a hidden field is unknown", ""},
		"byName.a.polici":           {"within a map", "policy"},
		"byName.a.b[c].d.polici":    {"a key of a map may have any characters", "policy"},
		"listByName.a[1].polici":    {"within a list in a map", "policy"},
		"inner.labels.polici":       {"a map of texts has no fields", ""},
		"when.wall":                 {"a type with a decoder of its own has no fields", ""},
		"inner":                     {"a known field is not unknown, only duplicate", ""},
		"":                          {"there is no field", ""},
		strings.Repeat("byName.", 1000) + "polici": {"the hint costs no time", ""},
	} {
		want := ""
		if c.want != "" {
			want = "; did you mean " + c.want + "?"
		}
		if got := DidYouMean(reflect.TypeFor[*configuration](), path); got != want {
			t.Errorf("%s: %s: expected %q, but found %q", path, c.reason, want, got)
		}
	}
}

func TestDidYouMeanOneOfTwo(t *testing.T) {
	t.Parallel()
	type twins struct {
		First  int `json:"portA"`
		Second int `json:"portB"`
	}
	if got := DidYouMean(reflect.TypeFor[twins](), "portC"); got != "" {
		t.Errorf("expected no hint, because two fields are as similar, but found %q", got)
	}
}
