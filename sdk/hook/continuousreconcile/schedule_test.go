package continuousreconcile_test

import (
	"errors"
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
	for name, tc := range map[string]struct {
		every, cron string
		after       string
		want        []string
	}{
		"nothing":  {"", "", wed, []string{"never"}},
		"interval": {"90s", "", wed, []string{"2025-01-01T08:00:30Z", "2025-01-01T08:02:00Z"}},
		"shortest": {"1s", "", wed, []string{"2025-01-01T07:59:01Z"}},
		// Rule (hooks.md#continuous-reconcile): `cron` takes the five standard fields.
		"five fields": {"", "0 8 * * *", wed, []string{"2025-01-01T08:00:00Z", "2025-01-02T08:00:00Z"}},
		"strictly":    {"", "0 8 * * *", "2025-01-01T08:00:00Z", []string{"2025-01-02T08:00:00Z"}},
		"fraction":    {"", "0 8 * * *", "2025-01-01T07:59:59.999Z", []string{"2025-01-01T08:00:00Z"}},
		"no zone":     {"", "0 8 * * *", "2025-01-01T09:30:00+02:00", []string{"2025-01-01T08:00:00Z"}},
		"space":       {"", " 0\t8  * * *\n", wed, []string{"2025-01-01T08:00:00Z"}},
		// Rule (hooks.md#continuous-reconcile): `cron` takes words such as `@daily`.
		"@daily":       {"", "@daily", wed, []string{"2025-01-02T00:00:00Z"}},
		"@every":       {"", "@every 1h30m", wed, []string{"2025-01-01T09:29:00Z", "2025-01-01T10:59:00Z"}},
		"@every, zone": {"", "TZ=Asia/Tokyo @every 1h", wed, []string{"2025-01-01T08:59:00Z"}},
		"TZ":           {"", "TZ=Asia/Tokyo 0 9 * * *", wed, []string{"2025-01-02T00:00:00Z"}},
		"CRON_TZ":      {"", "CRON_TZ=Asia/Tokyo 0 9 * * *", wed, []string{"2025-01-02T00:00:00Z"}},
		// The longest duration there is.
		"long interval": {"2540400h10m", "", wed, []string{"2314-10-24T08:09:00Z"}},

		// Changes of clocks: eight in Berlin is seven in winter and six in summer.
		"local time stays": {
			"", "TZ=Europe/Berlin 0 8 * * *", "2025-03-29T00:00:00Z", []string{"2025-03-29T07:00:00Z", "2025-03-30T06:00:00Z"},
		},
		// It does not exist on March 30.
		"left out": {
			"", "TZ=Europe/Berlin 30 2 * * *", "2025-03-29T00:00:00Z", []string{"2025-03-29T01:30:00Z", "2025-03-31T00:30:00Z"},
		},
		// It exists twice on October 26.
		"comes twice": {
			"", "TZ=Europe/Berlin 30 2 * * *", "2025-10-25T22:00:00Z",
			[]string{"2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z", "2025-10-27T01:30:00Z"},
		},
		"hourly": {
			"", "TZ=Europe/Berlin @hourly", "2025-10-26T00:00:00Z", []string{"2025-10-26T01:00:00Z", "2025-10-26T02:00:00Z"},
		},
		// Five on the third must not become five on the fourth.
		"right day": {"", "TZ=America/Sao_Paulo 0 5 3 11 *", "2018-11-03T09:00:00Z", []string{"2019-11-03T08:00:00Z"}},
		// Samoa had no December 30.
		"no such day": {"", "TZ=Pacific/Apia 0 12 30 * *", "2011-12-29T00:00:00Z", []string{"2012-01-29T22:00:00Z"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, err := continuousreconcile.Parse(tc.every, tc.cron)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, nextTimes(schedule, at(t, tc.after), len(tc.want))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Rule (hooks.md#continuous-reconcile): An unreadable schedule is refused, and the error names the field.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const every, cron = "every", "cron"
	for name, tc := range map[string]struct{ field, value, mentions string }{
		"no duration":   {every, "soon", "no duration"},
		"zero":          {every, "0s", "at least 1s"}, // it would be due all the time
		"too great":     {every, "100000000h", "no duration"},
		"long interval": {every, strings.Repeat("0", 300) + "1h", "longer than 256 bytes"},
		"blank":         {cron, "  ", "@daily"},
		// The library panics over these.
		"TZ alone":           {cron, "TZ=", "names no zone"},
		"TZ=0":               {cron, "TZ=0", `"0" is not known`},
		"zone later":         {cron, "0 8 * * TZ=UTC", "comes first"},
		"zone of machine":    {cron, "TZ=Local 0 8 * * *", "names no zone"}, // replicas may differ in it
		"no zone":            {cron, "TZ= 0 8 * * *", "names no zone"},
		"unknown zone":       {cron, "TZ=Europe/Bonn 0 8 * * *", `"Europe/Bonn" is not known`},
		"zone out of bounds": {cron, "TZ=../../etc/passwd 0 8 * * *", "is not known"},
		"empty list":         {cron, ", * * * *", "empty entry"}, // the library would look for years
		"@every nothing":     {cron, "@every", "needs one interval"},
		"@every 0s":          {cron, "@every 0s", "the interval of @every: this is shorter than one second"},
		"never due":          {cron, "0 0 30 2 *", "never due"}, // the item would wait in silence
		"long":               {cron, strings.Repeat("1,", 200) + "1 * * * *", "longer than 256 bytes"},
		"very long":          {cron, strings.Repeat("ü", 100_000), "longer than 256 bytes"},
		"both":               {"", "1h", "found both"}, // nobody could tell which counts
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := map[string]string{tc.field: tc.value}
			if tc.field == "" {
				fields = map[string]string{every: tc.value, cron: "@daily"}
			}
			schedule, err := continuousreconcile.Parse(fields[every], fields[cron])
			var wrong *continuousreconcile.FieldError
			if !errors.As(err, &wrong) || wrong.Field != tc.field || !strings.Contains(wrong.Detail, tc.mentions) ||
				!strings.Contains(wrong.Detail, "expected") {
				t.Fatalf("expected an error of the field %q that says what is expected and mentions %q, but found %v",
					tc.field, tc.mentions, err)
			}
			if tc.field != "" && !strings.HasPrefix(tc.value, strings.TrimSuffix(wrong.Value, "…")) {
				t.Errorf("expected the value %q, but found %q", tc.value, wrong.Value)
			}
			if len(err.Error()) > 1000 || strings.Contains(err.Error(), `\x`) {
				t.Errorf("expected an error of at most 1000 bytes without half a letter, but found %v", err)
			}
			if next := schedule.Next(time.Now()); next != nil {
				t.Errorf("expected a schedule that is never due beside the error, but it is due at %s", next)
			}
		})
	}
}

// FuzzParse: whatever is in the fields, Parse and Next return, and what is due is due later, again and again.
func FuzzParse(f *testing.F) {
	for _, seed := range [][2]string{
		{"1h", ""}, {"", "@daily"}, {"", "@every 90s"}, {"", "0 0 30 2 *"}, {"", ", * * * *"}, {"", "TZ="},
		{"", "CRON_TZ=UTC"}, {"", "TZ=UTC TZ="}, {"", "TZ=Pacific/Apia 0 12 * * *"},
		{"", "CRON_TZ=Europe/Berlin 30 2 31-1/7 jan,?/2 mon"}, {"1h", "@daily"},
	} {
		f.Add(seed[0], seed[1], int64(1325116800)) // in Samoa the day before one that does not exist
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
