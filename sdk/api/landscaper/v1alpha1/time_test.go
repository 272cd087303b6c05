package v1alpha1

import (
	"encoding/json"
	"testing"
	"time"
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
		var got Time
		if err := json.Unmarshal([]byte(document), &got); err != nil || !got.Time.Equal(want) {
			t.Errorf("%s is read as %v, expected %v (%v)", document, got, want, err)
		}
	}
}

func TestTimeWritesUTCSeconds(t *testing.T) {
	east := time.FixedZone("east", 2*60*60)
	out, err := json.Marshal(map[string]Time{"set": NewTime(time.Date(2021, 4, 15, 14, 10, 51, 999, east)), "zero": {}})
	if want := `{"set":"2021-04-15T12:10:51Z","zero":null}`; string(out) != want || err != nil {
		t.Errorf("expected %s, but found %s, %v", want, out, err)
	}
}
