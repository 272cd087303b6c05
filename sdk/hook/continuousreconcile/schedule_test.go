package continuousreconcile_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// nextTimes are the due times after a time, in UTC and seconds, ended by "never" if there are less than n.
func nextTimes(schedule continuousreconcile.Schedule, after time.Time, n int) []string {
	var times []string
	for range n {
		next := schedule.Next(after)
		if next == nil {
			return append(times, "never")
		}
		times = append(times, next.UTC().Format(time.RFC3339))
		after = *next
	}
	return times
}

func TestNext(t *testing.T) {
	t.Parallel()
	const wed = "2025-01-01T07:59:00Z"
	cases := map[string]struct {
		reason      string
		every, cron string
		after       string
		want        []string
	}{
		"nothing": {"without a field it is never due", "", "", wed, []string{"never"}},
		"interval": {
			"it counts from the time before", "90s", "", wed,
			[]string{"2025-01-01T08:00:30Z", "2025-01-01T08:02:00Z"},
		},
		"shortest": {"a second is the shortest interval", "1s", "", wed, []string{"2025-01-01T07:59:01Z"}},
		"five fields": {
			"each day at eight", "", "0 8 * * *", wed, []string{"2025-01-01T08:00:00Z", "2025-01-02T08:00:00Z"},
		},
		"strictly": {"not the time itself", "", "0 8 * * *", "2025-01-01T08:00:00Z", []string{"2025-01-02T08:00:00Z"}},
		"fraction": {"just before", "", "0 8 * * *", "2025-01-01T07:59:59.999Z", []string{"2025-01-01T08:00:00Z"}},
		"no zone": {
			"it is UTC, whatever the time before", "", "0 8 * * *", "2025-01-01T09:30:00+02:00",
			[]string{"2025-01-01T08:00:00Z"},
		},
		"space":         {"space does not count", "", " 0\t8  * * *\n", wed, []string{"2025-01-01T08:00:00Z"}},
		"@daily":        {"a word", "", "@daily", wed, []string{"2025-01-02T00:00:00Z"}},
		"@every":        {"a word", "", "@every 1h30m", wed, []string{"2025-01-01T09:29:00Z", "2025-01-01T10:59:00Z"}},
		"@every, zone":  {"the same in each zone", "", "TZ=Asia/Tokyo @every 1h", wed, []string{"2025-01-01T08:59:00Z"}},
		"TZ":            {"nine in Tokyo", "", "TZ=Asia/Tokyo 0 9 * * *", wed, []string{"2025-01-02T00:00:00Z"}},
		"CRON_TZ":       {"another name", "", "CRON_TZ=Asia/Tokyo 0 9 * * *", wed, []string{"2025-01-02T00:00:00Z"}},
		"February 30":   {"what does not exist never comes", "", "0 0 30 2 *", wed, []string{"never"}},
		"long interval": {"the longest duration there is", "2540400h10m", "", wed, []string{"2314-10-24T08:09:00Z"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, err := continuousreconcile.Parse(tc.every, tc.cron)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, nextTimes(schedule, at(t, tc.after), len(tc.want))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestChangesOfClocks(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		cron   string
		after  string
		want   []string
	}{
		"local time stays": {
			"eight in Berlin is seven in winter and six in summer", "TZ=Europe/Berlin 0 8 * * *", "2025-03-29T00:00:00Z",
			[]string{"2025-03-29T07:00:00Z", "2025-03-30T06:00:00Z"},
		},
		"left out": {
			"it does not exist on March 30", "TZ=Europe/Berlin 30 2 * * *", "2025-03-29T00:00:00Z",
			[]string{"2025-03-29T01:30:00Z", "2025-03-31T00:30:00Z"},
		},
		"comes twice": {
			"it exists twice on October 26", "TZ=Europe/Berlin 30 2 * * *", "2025-10-25T22:00:00Z",
			[]string{"2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z", "2025-10-27T01:30:00Z"},
		},
		"hourly": {
			"no hour is left out and none comes too often", "TZ=Europe/Berlin @hourly", "2025-10-26T00:00:00Z",
			[]string{"2025-10-26T01:00:00Z", "2025-10-26T02:00:00Z"},
		},
		"right day": {
			"five on the third must not become five on the fourth", "TZ=America/Sao_Paulo 0 5 3 11 *", "2018-11-03T09:00:00Z",
			[]string{"2019-11-03T08:00:00Z"},
		},
		"no such day": {
			"Samoa had no December 30", "TZ=Pacific/Apia 0 12 30 * *", "2011-12-29T00:00:00Z",
			[]string{"2012-01-29T22:00:00Z"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, err := continuousreconcile.Parse("", tc.cron)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, nextTimes(schedule, at(t, tc.after), len(tc.want))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("1,", 200) + "1 * * * *"
	cases := map[string]struct {
		reason      string
		every, cron string
		field       string
		mentions    string
	}{
		"both":               {"nobody could tell which counts", "1h", "@daily", "", "found both"},
		"no duration":        {"it is no duration", "soon", "", "every", "no duration"},
		"zero":               {"it would be due all the time", "0s", "", "every", "at least 1s"},
		"too great":          {"it does not fit into a duration", "100000000h", "", "every", "no duration"},
		"long interval":      {"a text is bounded", strings.Repeat("0", 300) + "1h", "", "every", "longer than 256 bytes"},
		"blank":              {"space is no schedule", "", "  ", "cron", "@daily"},
		"TZ alone":           {"the library panics", "", "TZ=", "cron", "names no zone"},
		"TZ=0":               {"the library panics", "", "TZ=0", "cron", `"0" is not known`},
		"zone later":         {"the zone comes first", "", "0 8 * * TZ=UTC", "cron", "comes first"},
		"zone of machine":    {"replicas may differ in it", "", "TZ=Local 0 8 * * *", "cron", "names no zone"},
		"no zone":            {"no name is no zone", "", "TZ= 0 8 * * *", "cron", "names no zone"},
		"unknown zone":       {"there is no such zone", "", "TZ=Europe/Bonn 0 8 * * *", "cron", `"Europe/Bonn" is not known`},
		"zone out of bounds": {"a zone is no path", "", "TZ=../../etc/passwd 0 8 * * *", "cron", "is not known"},
		"empty list":         {"the library would look for years", "", ", * * * *", "cron", "empty entry"},
		"@every nothing":     {"the interval is missing", "", "@every", "cron", "needs one interval"},
		"@every 0s": {
			"the library would make a second of it", "", "@every 0s", "cron",
			"the interval of @every: this is shorter than one second",
		},
		"long": {"a text is bounded", "", long, "cron", "longer than 256 bytes"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, err := continuousreconcile.Parse(tc.every, tc.cron)
			var wrong *continuousreconcile.FieldError
			if !errors.As(err, &wrong) {
				t.Fatalf("%s: expected a FieldError, but found %v", tc.reason, err)
			}
			mentions := strings.Contains(wrong.Detail, tc.mentions) && strings.Contains(wrong.Detail, "expected")
			if wrong.Field != tc.field || !mentions {
				t.Errorf("%s: expected an error of the field %q that says what is expected and mentions %q, but found %+v",
					tc.reason, tc.field, tc.mentions, wrong)
			}
			if value := tc.every + tc.cron; tc.field != "" && !strings.HasPrefix(value, strings.TrimSuffix(wrong.Value, "…")) {
				t.Errorf("%s: expected the value %q, but found %q", tc.reason, value, wrong.Value)
			}
			if next := schedule.Next(time.Now()); next != nil {
				t.Errorf("%s: expected a schedule that is never due beside the error, but it is due at %s", tc.reason, next)
			}
		})
	}
}

func TestErrorIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 100_000)
	for _, tc := range []struct{ every, cron string }{{long, ""}, {"", long}} {
		_, err := continuousreconcile.Parse(tc.every, tc.cron)
		if err == nil || len(err.Error()) > 1000 || strings.Contains(err.Error(), `\x`) {
			t.Errorf("expected an error of at most 1000 bytes without half a letter, but found %v", err)
		}
	}
}

// An image that holds nothing but the plugin has no zones of its own.
func TestZonesAreEmbedded(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	if !slices.Contains(strings.Fields(string(out)), "time/tzdata") {
		t.Error("the package does not embed the zones")
	}
}

// FuzzParse: whatever is in the fields, Parse and Next return, and what is due is due later, again and again.
func FuzzParse(f *testing.F) {
	for _, seed := range []struct{ every, cron string }{
		{"1h", ""},
		{"", "@daily"},
		{"", "@every 90s"},
		{"", "0 0 30 2 *"},
		{"", ", * * * *"},
		{"", "TZ="},
		{"", "CRON_TZ=UTC"},
		{"", "TZ=UTC TZ="},
		{"", "TZ=Pacific/Apia 0 12 * * *"},
		{"", "CRON_TZ=Europe/Berlin 30 2 31-1/7 jan,?/2 mon"},
		{"1h", "@daily"},
	} {
		f.Add(seed.every, seed.cron, int64(1325116800)) // in Samoa the day before one that does not exist
	}
	f.Fuzz(func(t *testing.T, every, cron string, unix int64) {
		schedule, err := continuousreconcile.Parse(every, cron)
		var wrong *continuousreconcile.FieldError
		if err != nil && (!errors.As(err, &wrong) || !slices.Contains([]string{"", "every", "cron"}, wrong.Field)) {
			t.Fatalf("expected an error of a field, but found %v", err)
		}
		after := time.Unix(unix%253402300800, 0) // what a status can hold
		for range 3 {
			next := schedule.Next(after)
			if next == nil {
				return
			}
			if err != nil || !next.After(after) {
				t.Fatalf("error %v; after %s comes %s", err, after, next)
			}
			after = *next
		}
	})
}
