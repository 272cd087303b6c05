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
	tests := map[string]struct {
		reason      string
		duration    Duration
		want        time.Duration
		wantLimited bool
		wantErr     bool
	}{
		"Minutes":   {reason: "the usual form", duration: "10m", want: 10 * time.Minute, wantLimited: true},
		"Several":   {reason: "units may be combined", duration: "1h30m", want: 90 * time.Minute, wantLimited: true},
		"Fraction":  {reason: "a fraction", duration: "1.5s", want: 1500 * time.Millisecond, wantLimited: true},
		"Plus":      {reason: "Go reads a sign", duration: "+1s", want: time.Second, wantLimited: true},
		"None":      {reason: "no limit", duration: NoDuration},
		"Zero":      {reason: "Landscaper writes none as zero", duration: "0s"},
		"BareZero":  {reason: "zero needs no unit", duration: "0"},
		"Negative":  {reason: "time does not run backwards", duration: "-1s", wantErr: true},
		"NoUnit":    {reason: "a number alone says nothing", duration: "10", wantErr: true},
		"Days":      {reason: "a day is no unit of Go", duration: "1d", wantErr: true},
		"Empty":     {reason: "nothing is no duration; defaults are the caller's", duration: "", wantErr: true},
		"Space":     {reason: "no blanks", duration: "10 m", wantErr: true},
		"OtherCase": {reason: "none has one spelling", duration: "None", wantErr: true},
		"TooLong":   {reason: "300 years do not fit", duration: "2700000h", wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, limited, err := tc.duration.Parse()
			if got != tc.want || limited != tc.wantLimited || (err != nil) != tc.wantErr {
				t.Errorf("%s: Parse(%q) = %s, %v, %v", tc.reason, tc.duration, got, limited, err)
			}
			if err != nil && !strings.Contains(err.Error(), `"`+string(tc.duration)+`"`) {
				t.Errorf("%s: the error does not say what was found: %v", tc.reason, err)
			}
		})
	}
}

// pattern is what the API server accepts, as the marker in duration.go says.
func pattern(t *testing.T) *regexp.Regexp {
	t.Helper()
	source, err := os.ReadFile("duration.go")
	if err != nil {
		t.Fatal(err)
	}
	marker := regexp.MustCompile("\\+kubebuilder:validation:Pattern=`(.*)`").FindSubmatch(source)
	if marker == nil {
		t.Fatal("duration.go has no marker with a pattern")
	}
	return regexp.MustCompile(string(marker[1]))
}

// The definition that is installed in a cluster has the marker's pattern.
func TestDurationPatternOfTheCRD(t *testing.T) {
	t.Parallel()
	definition, err := os.ReadFile("../crds/landscaper.gardener.cloud_deployitems.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := "pattern: " + pattern(t).String() + "\n"; !strings.Contains(string(definition), want) {
		t.Errorf("the CustomResourceDefinition does not contain %q; generate it again", want)
	}
}

// isSignedZero tells spellings that Go reads, as zero, and nobody writes. The API server refuses them.
func isSignedZero(text string) bool {
	span, err := time.ParseDuration(text)
	return err == nil && span == 0 && (text == "+0" || strings.HasPrefix(text, "-"))
}

var manyDigits = regexp.MustCompile(`[0-9]{6}`)

// What the API server lets pass is what Parse reads, and the other way round.
func TestDurationPatternAgreesWithParse(t *testing.T) {
	t.Parallel()
	accepted := pattern(t)
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
		if isSignedZero(text) {
			return
		}
		if matches := accepted.MatchString(text); matches != (err == nil) {
			rt.Fatalf("%q: the API server accepts it: %v, Parse returns %v", text, matches, err)
		}
	})
}
