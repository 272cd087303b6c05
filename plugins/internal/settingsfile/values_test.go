package settingsfile_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/plugins/internal/settingsfile"
	"github.com/pergola-deploy/pergola/sdk"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for found, wrong := range map[int]string{
		1: "", 10: "", 0: "expected a number from 1 to 10, but found 0", -1: "expected a number from 1 to 10, but found -1",
		11: "expected a number from 1 to 10, but found 11",
	} {
		var problems settingsfile.Problems
		problems.Number("a.b", found, 10)
		check(t, strconv.Itoa(found), "the bounds themselves are allowed", problems, wrong)
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
		amount := settingsfile.AmountOf(text)
		if c.wrong == "" && amount.Bytes != c.want {
			t.Errorf("%q: %s: expected %d, but found %d", text, c.reason, c.want, amount.Bytes)
		}
		problems.Amount("a.b", amount, settingsfile.AmountOf("1Ki"), settingsfile.AmountOf("10Gi"))
		check(t, text, c.reason, problems, c.wrong)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	const bounds = "expected a time from 1s to 24h0m0s, such as 90s or 1h30m, but found "
	for text, c := range map[string]struct {
		reason string
		want   time.Duration
		wrong  string
	}{
		"1s":            {reason: "the bounds themselves are allowed", want: time.Second},
		"24h":           {reason: "the bounds themselves are allowed", want: 24 * time.Hour},
		"1h30m":         {reason: "units come together", want: 90 * time.Minute},
		"1.5s":          {reason: "decimals are allowed", want: 1500 * time.Millisecond},
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
		duration := settingsfile.DurationOf(text)
		if c.wrong == "" && duration.Duration != c.want {
			t.Errorf("%q: %s: expected %v, but found %v", text, c.reason, c.want, duration)
		}
		problems.Duration("a.b", duration, time.Second, 24*time.Hour)
		check(t, text, c.reason, problems, c.wrong)
	}
}

// check fails unless the problems are the wanted one; wrong is empty for none.
func check(t *testing.T, name, reason string, problems settingsfile.Problems, wrong string) {
	t.Helper()
	var expected []sdk.Problem
	if wrong != "" {
		expected = []sdk.Problem{{Field: "a.b", Message: wrong}}
	}
	if diff := cmp.Diff(expected, problems.List()); diff != "" {
		t.Errorf("%q: %s: problems: -want +got:\n%s", name, reason, diff)
	}
}

// TestAmounts: any text is within its bounds or reported once, in no time.
func TestAmounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(),
			rapid.StringMatching(`[-+]?[0-9]{0,17}\.?[0-9]{0,4}([eE][-+]?[0-9]{1,9}|[numkMGTPE]?i?)`)).Draw(t, "text")
		amount, found := settingsfile.AmountOf(text), settingsfile.Problems{}
		found.Amount("a", amount, settingsfile.AmountOf("10"), settingsfile.AmountOf("1Ti"))
		switch problems := found.List(); {
		case len(problems) == 0 && (amount.Bytes < 10 || amount.Bytes > 1<<40):
			t.Fatalf("%q is read as %d", text, amount.Bytes)
		case len(problems) > 1:
			t.Fatalf("%q: found %v", text, problems)
		case len(problems) == 1 && !strings.HasPrefix(problems[0].Message, "expected an amount from 10 to 1Ti"):
			t.Fatalf("%q: found %v", text, problems)
		}
	})
}
