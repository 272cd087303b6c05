package conformance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func rawCase() Case {
	item := DeployItem(rawType, []byte(`{"apiVersion":"example.org/v1","kind":"RawConfiguration"}`))
	return Case{Name: "raw", Call: Call{DeployItem: item}}
}

// quickLimits do not make a plugin that keeps the rules any quicker, but the checks.
func quickLimits() limits {
	l := usualLimits()
	l.pause, l.large = 50*time.Millisecond, 1<<10
	l.answer, l.probe, l.end, l.silence = time.Minute, time.Minute, time.Minute, time.Minute // the machine may be busy
	return l
}

// examine checks a plugin that misbehaves as the entry of that name says.
func examine(t *testing.T, name string) *Report {
	t.Helper()
	m := misbehaviours[name]
	limits := quickLimits()
	if m.limits != nil {
		m.limits(&limits)
	}
	o := Options{
		Configuration: []byte("volume: 11"), Env: []string{misbehaviourEnv + "=" + name}, limits: &limits, Output: t.Output(),
	}
	if !m.noCase {
		c := rawCase()
		c.Timeout = m.timeout
		o.Cases = []Case{c}
	}
	if m.program != nil {
		report, err := Binary(t.Context(), testBinary(t), o)
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	s := &service{}
	if m.service != nil {
		m.service(s)
	}
	report, err := Attached(t.Context(), serveAttachable(t, s, m.options...), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func brokenRules(r *Report) []Rule {
	return slices.Sorted(slices.Values(convert(r.Broken(), func(f Finding) Rule { return f.Rule })))
}

func TestMisbehaviourBreaksItsRules(t *testing.T) {
	t.Parallel()
	for name, m := range misbehaviours {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := examine(t, name)
			if diff := cmp.Diff(slices.Compact(slices.Sorted(slices.Values(m.want))), brokenRules(report)); diff != "" {
				t.Errorf("%s: broken rules (-want +got):\n%s\nfound: %v", m.reason, diff, report.Broken())
			}
		})
	}
}

// A rule that nothing breaks may as well not be checked.
func TestEachRuleIsBrokenBySomething(t *testing.T) {
	t.Parallel()
	broken := map[Rule]bool{}
	for _, m := range misbehaviours {
		for _, rule := range m.want {
			broken[rule] = true
		}
	}
	for _, rule := range Rules() {
		if !broken[rule] {
			t.Errorf("no misbehaviour breaks %s", rule)
		}
	}
}

// What keeps all rules and has all capabilities shows that no rule is passed over.
func TestPluginThatKeepsTheRules(t *testing.T) {
	t.Parallel()
	limits := usualLimits()
	o := Options{Cases: []Case{rawCase()}, Env: []string{misbehaviourEnv + "="}, limits: &limits, Output: t.Output()}
	report, err := Binary(t.Context(), testBinary(t), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Verdict != Passed {
			t.Errorf("%s: %s %q", f.Rule, f.Verdict, f.Messages)
		}
	}
	if !report.Conforms() || report.Info == nil || report.Info.Name != "raw" {
		t.Errorf("expected a report about a conforming plugin raw, but found %+v", report)
	}
}

// A plugin of nothing but hooks has to keep what applies to it, and is not held to what only a deployer can.
func TestHooksOnly(t *testing.T) {
	t.Parallel()
	report, err := Attached(t.Context(), serveAttachable(t, &service{info: hooksOnly}), Options{Cases: []Case{rawCase()}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]v1alpha1.DeployItemType{rawType}, report.Info.HookedTypes); diff != "" {
		t.Errorf("hooked types (-want +got):\n%s", diff)
	}
	expectPassed(t, report, RuleHealth, RuleInfo, RuleHooks)
}

func TestWithoutCasesAndProcess(t *testing.T) {
	t.Parallel()
	report, err := Attached(t.Context(), serveAttachable(t, &service{}), Options{KeepConfiguration: true})
	if err != nil {
		t.Fatal(err)
	}
	expectPassed(t, report, RuleHealth, RuleInfo, RuleHooks, RuleCredentials, RuleHoldings, RuleStartFirst,
		RuleUnknownIgnored, RuleStop, RuleLargeMessages, RuleConcurrentCalls, RuleCallEnds, RuleOneResult, RuleHeartbeat,
		RuleSequence, RuleProviderStatus, RuleResult, RuleConditions, RuleConfigStrict)
}

// expectPassed expects that all other rules are not applicable, for a reason.
func expectPassed(t *testing.T, report *Report, passed ...Rule) {
	t.Helper()
	for _, f := range report.Findings {
		want := NotApplicable
		if slices.Contains(passed, f.Rule) {
			want = Passed
		}
		if f.Verdict != want || want == NotApplicable && (len(f.Messages) != 1 || f.Messages[0] == "") {
			t.Errorf("%s: expected %s, but found %s %q", f.Rule, want, f.Verdict, f.Messages)
		}
	}
}

func TestIncompleteCases(t *testing.T) {
	t.Parallel()
	address := serveAttachable(t, &service{})
	noObject := rawCase()
	noObject.Call.DeployItem.Spec.Config.Raw = []byte(`["a"]`)
	for name, c := range map[string]Case{
		"without an item":              {Name: "empty"},
		"without a configuration":      {Name: "bare", Call: Call{DeployItem: DeployItem(rawType, nil)}},
		"configuration that is a list": noObject,
	} {
		_, err := Attached(t.Context(), address, Options{Cases: []Case{c}})
		if err == nil || !strings.Contains(err.Error(), c.Name) {
			t.Errorf("%s: expected an error that names the case, but found %v", name, err)
		}
	}
}

func TestWhatIsNoProgram(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"no such file": "no-such-file", "not executable": "./rules.go"} {
		if report, err := Binary(t.Context(), path, Options{}); err == nil {
			t.Errorf("%s: expected an error, but found %v", name, report.Broken())
		}
	}
}
