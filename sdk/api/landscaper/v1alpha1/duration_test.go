package v1alpha1

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestDurationParse(t *testing.T) {
	t.Parallel()
	for duration, want := range map[Duration]time.Duration{
		"10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "1.5s": 1500 * time.Millisecond, "+1s": time.Second,
		// No limit. Landscaper writes none as zero.
		NoDuration: 0, "0s": 0, "0": 0,
	} {
		if got, limited, err := duration.Parse(); got != want || limited != (want > 0) || err != nil {
			t.Errorf("%q: expected %s, but found %s, %v, %v", duration, want, got, limited, err)
		}
	}
	// 300 years do not fit.
	for _, duration := range []Duration{"-1s", "10", "1d", "", "10 m", "None", "2700000h"} {
		if _, _, err := duration.Parse(); err == nil || !strings.Contains(err.Error(), `"`+string(duration)+`"`) {
			t.Errorf("expected an error that names %q, but found %v", duration, err)
		}
	}
}

var manyDigits = regexp.MustCompile(`[0-9]{6}`)

// What the API server lets pass is what Parse reads, and the other way round.
func TestDurationPatternAgreesWithParse(t *testing.T) {
	t.Parallel()
	definition, err := os.ReadFile("../crds/landscaper.gardener.cloud_deployitems.yaml")
	if err != nil {
		t.Fatal(err)
	}
	accepted := regexp.MustCompile(string(regexp.MustCompile(`pattern: (\^\(none.*)\n`).FindSubmatch(definition)[1]))
	digits := rapid.StringMatching(`[0-9]{0,3}`)
	part := rapid.Custom(func(rt *rapid.T) string {
		point := rapid.SampledFrom([]string{"", "", ".", ".."}).Draw(rt, "point")
		unit := rapid.SampledFrom([]string{"ns", "us", "µs", "μs", "ms", "s", "m", "h", "", "d", "S"}).Draw(rt, "unit")
		return digits.Draw(rt, "whole") + point + rapid.StringMatching(`[0-9]{0,2}`).Draw(rt, "fraction") + unit
	})
	duration := rapid.OneOf(
		rapid.SampledFrom([]string{"none", "0", "+0", "-0", "", "+", ".", "+none", "none0", "0s\n", " 1s"}),
		rapid.StringMatching(`[-+0-9.nsuµmh]{0,6}`),
		rapid.Custom(func(rt *rapid.T) string {
			sign := rapid.SampledFrom([]string{"", "", "", "+", "-", "++"}).Draw(rt, "sign")
			return sign + strings.Join(rapid.SliceOfN(part, 1, 4).Draw(rt, "parts"), "")
		}),
	)
	rapid.Check(t, func(rt *rapid.T) {
		text := duration.Draw(rt, "duration")
		if utf8.RuneCountInString(text) > 64 {
			rt.Skip("the API server refuses it for its length")
		}
		if manyDigits.MatchString(text) {
			rt.Skip("it may be longer than 290 years, which a pattern cannot tell")
		}
		_, _, err := Duration(text).Parse()
		if span, err := time.ParseDuration(text); err == nil && span == 0 && (text == "+0" || strings.HasPrefix(text, "-")) {
			return // Go reads these as zero; the API server refuses them
		}
		if matches := accepted.MatchString(text); matches != (err == nil) {
			rt.Fatalf("%q: the API server accepts it: %v, Parse returns %v", text, matches, err)
		}
	})
}
