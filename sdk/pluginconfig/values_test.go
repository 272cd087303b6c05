package pluginconfig_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/pluginconfig"
)

// mustReport fails unless the problems are the wanted one; empty for none.
func mustReport(t *testing.T, text string, problems pluginconfig.Problems, want string) {
	t.Helper()
	var expected []sdk.Problem
	if want != "" {
		expected = []sdk.Problem{{Field: "a.b", Message: want}}
	}
	if diff := cmp.Diff(expected, problems.List()); diff != "" {
		t.Errorf("%q: problems: -want +got:\n%s", text, diff)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for found, wrong := range map[int]bool{1: false, 10: false, 0: true, -1: true, 11: true} {
		var problems pluginconfig.Problems
		problems.Number("a.b", found, 10)
		want := ""
		if wrong {
			want = fmt.Sprintf("expected a number from 1 to 10, but found %d", found)
		}
		mustReport(t, want, problems, want)
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	least, most := pluginconfig.AmountOf("1Ki"), pluginconfig.AmountOf("10Gi")
	for text, want := range map[string]int64{
		"1024": 1024, "1Ki": 1024, "10Gi": 10 << 30, "2k": 2000, "1.5M": 1_500_000, "1.001Mi": 1_049_625, // a part is a byte
	} {
		var problems pluginconfig.Problems
		amount := pluginconfig.AmountOf(text)
		if problems.Amount("a.b", amount, least, most); amount.Bytes != want {
			t.Errorf("%q: expected %d, but found %d", text, want, amount.Bytes)
		}
		mustReport(t, text, problems, "")
	}
	// The library takes some exponents for zero, and is busy with others for minutes.
	invalid := []string{
		"", "-1Mi", "+1Mi", "1 Mi", "1MiB", "1m", "1e6", "1e-999999999", strings.Repeat("1", 25), "1Mi\n", "plenty",
	}
	for _, text := range append([]string{"1023", "10.001Gi", "999999999999999Ti", "0"}, invalid...) {
		shown := text
		if slices.Contains(invalid, text) {
			shown = strconv.Quote(text)
		}
		var problems pluginconfig.Problems
		problems.Amount("a.b", pluginconfig.AmountOf(text), least, most)
		mustReport(t, text, problems, "expected an amount from 1Ki to 10Gi, such as 20Mi, but found "+shown)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{ // 0 for an invalid one
		"1s": time.Second, "24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "1.5s": 1500 * time.Millisecond,
		"999ms": 0, "24h1ns": 0, "-2s": 0, "9999999999h": 0, "60": 0, "1d": 0, "": 0, "half an hour": 0, "1s; rm -rf": 0,
	} {
		var problems pluginconfig.Problems
		duration := pluginconfig.DurationOf(text)
		problems.Duration("a.b", duration, time.Second, 24*time.Hour)
		wrong := ""
		if want == 0 {
			wrong = fmt.Sprintf("expected a time from 1s to 24h0m0s, such as 90s or 1h30m, but found %q", text)
		} else if duration.Duration != want {
			t.Errorf("%q: expected %v, but found %v", text, want, duration)
		}
		mustReport(t, text, problems, wrong)
	}
}

// TestAmounts: any text is within its bounds or reported once, in no time.
func TestAmounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(),
			rapid.StringMatching(`[-+]?[0-9]{0,17}\.?[0-9]{0,4}([eE][-+]?[0-9]{1,9}|[numkMGTPE]?i?)`)).Draw(t, "text")
		amount, found := pluginconfig.AmountOf(text), pluginconfig.Problems{}
		found.Amount("a", amount, pluginconfig.AmountOf("10"), pluginconfig.AmountOf("1Ti"))
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
