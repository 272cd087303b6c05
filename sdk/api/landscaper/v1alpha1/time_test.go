package v1alpha1

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTimeReadsAnything(t *testing.T) {
	noon := time.Date(2021, 4, 15, 12, 10, 51, 0, time.UTC)
	for document, want := range map[string]time.Time{
		`"2021-04-15T12:10:51Z"`:      noon,
		`"2021-04-15T14:10:51+02:00"`: noon,
		`"2021-04-15T12:10:51.5Z"`:    noon.Add(500 * time.Millisecond),
		`"2021-04-15t12:10:51z"`:      {},
		`"2021-02-30T12:10:51Z"`:      {},
		`""`:                          {},
		`null`:                        {},
		`[]`:                          {},
		`{"a":1}`:                     {},
		`7`:                           {},
	} {
		var holder struct {
			Time *Time `json:"time"`
		}
		if err := json.Unmarshal([]byte(`{"time":`+document+`}`), &holder); err != nil {
			t.Errorf("%s cannot be read: %v", document, err)
			continue
		}
		if document == "null" {
			if holder.Time != nil {
				t.Errorf("null is read as %v", holder.Time)
			}
			continue
		}
		if !holder.Time.Time.Equal(want) {
			t.Errorf("%s is read as %v, expected %v", document, holder.Time, want)
		}
	}
}

func TestTimeWritesUTCSeconds(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	out, err := json.Marshal(map[string]Time{"set": NewTime(time.Date(2021, 4, 15, 14, 10, 51, 999, east)), "zero": {}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"set":"2021-04-15T12:10:51Z","zero":null}`, string(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
