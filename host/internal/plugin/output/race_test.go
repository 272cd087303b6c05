//go:build race

package output

import (
	"strings"
	"testing"
)

// The fixtures of TestReports are made up; this is what the race detector really writes.
func TestRealRace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	runCrash(t, f, "race")
	got := f.said()
	if len(got) < 2 || got[1]["msg"] != "WARNING: DATA RACE" || got[1]["level"] != "ERROR" {
		t.Fatalf("expected a race, but found %.2000q", got)
	}
	stack, ok := got[1]["stack"].(string)
	if !ok || strings.Count(stack, "crash_test.go") < 2 || strings.Contains(stack, raceRule) {
		t.Errorf("expected both sides of the race, but found %s", stack)
	}
	for _, r := range got[2:] {
		if r["level"] != "INFO" {
			t.Errorf("expected nothing else, but found %q", r)
		}
	}
}
