package settingsfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	number := func(n int) *int { return &n }
	for name, c := range map[string]struct {
		reason string
		found  *int
		want   int
		wrong  string
	}{
		"none":     {reason: "what is left out keeps its default", want: 7},
		"least":    {reason: "the bounds themselves are allowed", found: number(1), want: 1},
		"most":     {reason: "the bounds themselves are allowed", found: number(10), want: 10},
		"zero":     {reason: "nothing would be left to do", found: number(0), want: 7, wrong: "expected a number from 1 to 10, but found 0"},
		"negative": {reason: "nobody knows what it means", found: number(-1), want: 7, wrong: "expected a number from 1 to 10, but found -1"},
		"too many": {reason: "the field is named with its bound", found: number(11), want: 7, wrong: "expected a number from 1 to 10, but found 11"},
	} {
		var problems settingsfile.Problems
		into := 7
		problems.Number("a.b", c.found, 10, &into)
		check(t, name, c.reason, into, c.want, problems, c.wrong)
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	const bounds = "expected an amount from 1Ki to 10Gi, such as 20Mi, but found "
	for text, c := range map[string]struct {
		reason string
		want   int64
		wrong  string
	}{
		"1024":                      {reason: "a number is an amount of bytes", want: 1024},
		"1Ki":                       {reason: "the bounds themselves are allowed", want: 1024},
		"10Gi":                      {reason: "the bounds themselves are allowed", want: 10 << 30},
		"2k":                        {reason: "decimal units are units", want: 2000},
		"1.5M":                      {reason: "decimals are allowed", want: 1_500_000},
		"1.001Mi":                   {reason: "a part of a byte is a byte", want: 1_049_625},
		"1023":                      {reason: "it is too little", wrong: bounds + "1023"},
		"10.001Gi":                  {reason: "it is too much", wrong: bounds + "10.001Gi"},
		"999999999999999Ti":         {reason: "nothing overflows", wrong: bounds + "999999999999999Ti"},
		"0":                         {reason: "nothing is too little", wrong: bounds + "0"},
		"":                          {reason: "an empty text is no amount", wrong: bounds + `""`},
		"-1Mi":                      {reason: "nor is what is missing", wrong: bounds + `"-1Mi"`},
		"+1Mi":                      {reason: "there is one way to write it", wrong: bounds + `"+1Mi"`},
		"1 Mi":                      {reason: "there is one way to write it", wrong: bounds + `"1 Mi"`},
		"1MiB":                      {reason: "Kubernetes has other units", wrong: bounds + `"1MiB"`},
		"1m":                        {reason: "a thousandth of a byte is a mistake", wrong: bounds + `"1m"`},
		"1e6":                       {reason: "the library takes some exponents for zero", wrong: bounds + `"1e6"`},
		"1e-999999999":              {reason: "it is busy with others for minutes", wrong: bounds + `"1e-999999999"`},
		"1000000000000000000000000": {reason: "it is too long", wrong: bounds + `"1000000000000000000000000"`},
		"1Mi\n":                     {reason: "it is quoted, so that the mistake is seen", wrong: bounds + `"1Mi\n"`},
		"plenty":                    {reason: "a word is no amount", wrong: bounds + `"plenty"`},
	} {
		var problems settingsfile.Problems
		into := int64(7)
		problems.Amount("a.b", &text, 1<<10, 10<<30, &into)
		want := c.want
		if c.wrong != "" {
			want = 7
		}
		check(t, text, c.reason, into, want, problems, c.wrong)
	}
	var problems settingsfile.Problems
	into := int64(7)
	problems.Amount("a.b", nil, 1, 2, &into)
	check(t, "none", "what is left out keeps its default", into, 7, problems, "")
}

func TestDuration(t *testing.T) {
	t.Parallel()
	const bounds = "expected a time from 1s to 24h0m0s, such as 90s or 1h30m, but found "
	for text, c := range map[string]struct {
		reason string
		want   time.Duration
		wrong  string
	}{
		"1s": {reason: "the bounds themselves are allowed", want: time.Second}, "24h": {reason: "the bounds themselves are allowed", want: 24 * time.Hour},
		"1h30m": {reason: "units come together", want: 90 * time.Minute}, "1.5s": {reason: "decimals are allowed", want: 1500 * time.Millisecond},
		"999ms":         {reason: "it is too short", wrong: bounds + `"999ms"`},
		"24h1ns":        {reason: "it is too long", wrong: bounds + `"24h1ns"`},
		"-2s":           {reason: "time does not go back", wrong: bounds + `"-2s"`},
		"9999999999h":   {reason: "nothing overflows", wrong: bounds + `"9999999999h"`},
		"60":            {reason: "nobody knows of what", wrong: bounds + `"60"`},
		"1d":            {reason: "not all days are as long", wrong: bounds + `"1d"`},
		"":              {reason: "an empty text is no time", wrong: bounds + `""`},
		"half an hour":  {reason: "a word is no time", wrong: bounds + `"half an hour"`},
		"1s; rm -rf /*": {reason: "it is quoted, so that the mistake is seen", wrong: bounds + `"1s; rm -rf /*"`},
	} {
		var problems settingsfile.Problems
		into := 7 * time.Second
		problems.Duration("a.b", &text, time.Second, 24*time.Hour, &into)
		want := c.want
		if c.wrong != "" {
			want = 7 * time.Second
		}
		check(t, text, c.reason, into, want, problems, c.wrong)
	}
	var problems settingsfile.Problems
	into := 7 * time.Second
	problems.Duration("a.b", nil, 1, 2, &into)
	check(t, "none", "what is left out keeps its default", into, 7*time.Second, problems, "")
}

// check reports a value that is not what was wanted, and problems that are not the one that is named; wrong is empty
// for none.
func check[T comparable](t *testing.T, name, reason string, found, want T, problems settingsfile.Problems, wrong string) {
	t.Helper()
	if found != want {
		t.Errorf("%q: %s: expected %v, but found %v", name, reason, want, found)
	}
	var expected settingsfile.Problems
	if wrong != "" {
		expected.Add("a.b", "%s", wrong)
	}
	if diff := cmp.Diff(expected, problems); diff != "" {
		t.Errorf("%q: %s: problems: -want +got:\n%s", name, reason, diff)
	}
}

// TestAmounts: each amount that is shown is read as what it is, and whatever is read is within its bounds, at once.
func TestAmounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, 999_999_999_999_999).Draw(t, "amount")
		shown := settingsfile.ShowAmount(amount)
		var problems settingsfile.Problems
		var read int64 = -1
		problems.Amount("", &shown, 0, 1<<60, &read)
		if read != amount || len(problems) > 0 {
			t.Fatalf("%d is shown as %s, which is read as %d: %v", amount, shown, read, problems)
		}

		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-+]?[0-9]{0,17}\.?[0-9]{0,4}([eE][-+]?[0-9]{1,9}|[numkMGTPE]?i?)`)).Draw(t, "text")
		least, most := int64(10), int64(1<<40)
		into, found := int64(-1), settingsfile.Problems{}
		found.Amount("a", &text, least, most, &into)
		switch {
		case len(found) == 0 && (into < least || into > most):
			t.Fatalf("%q is read as %d", text, into)
		case len(found) > 0 && into != -1:
			t.Fatalf("%q is wrong, and read as %d", text, into)
		case len(found) > 1 || len(found) == 1 && !strings.HasPrefix(found[0].Message, "expected an amount from 10 to 1Ti"):
			t.Fatalf("%q: found %v", text, found)
		}
	})
}
