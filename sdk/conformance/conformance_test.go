package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/proto/wire"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/bounds"
	"github.com/pergola-deploy/pergola/test/await"
)

func fakeCase() Case {
	item := DeployItem(fakeType, []byte(`{"apiVersion":"example.org/v1","kind":"FakeConfiguration"}`))
	return Case{Name: "fake", Call: Call{DeployItem: item}}
}

// examine checks a fake with the misbehaviour of that name.
func examine(t *testing.T, name string, env ...string) *Report {
	t.Helper()
	m := misbehaviours()[name]
	limits := bounds.Usual()
	limits.Pause, limits.Large = 50*time.Millisecond, 1<<10
	// The machine may be busy.
	limits.Answer, limits.Probe, limits.End, limits.Silence = time.Minute, time.Minute, time.Minute, time.Minute
	if m.limits != nil {
		m.limits(&limits)
	}
	o := Options{
		Configuration: []byte("volume: 11"), Env: append(env, misbehaviourEnv+"="+name), limits: &limits, Output: t.Output(),
	}
	if !m.noCase {
		o.Cases = []Case{fakeCase()}
		o.Cases[0].Timeout = m.timeout
	}
	check, plugin := Binary, testBinary(t)
	if m.program == nil {
		check, plugin = Attached, serveAttachable(t, m)
	}
	report, err := check(t.Context(), plugin, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Rule (protocol.md#tools): `pergola plugins verify` finds each breach of the rules of the protocol.
func TestMisbehaviourBreaksItsRules(t *testing.T) {
	t.Parallel()
	unbroken := Rules() // a rule that nothing breaks may as well not be checked
	for name, m := range misbehaviours() {
		if m.want == nil {
			continue
		}
		unbroken = slices.DeleteFunc(unbroken, func(r Rule) bool { return slices.Contains(m.want, r) })
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := examine(t, name)
			broken := slices.Sorted(slices.Values(wire.Each(report.Broken(), func(f Finding) Rule { return f.Rule })))
			if diff := cmp.Diff(m.want, broken); diff != "" {
				t.Errorf("broken rules (-want +got):\n%s\nfound: %v", diff, report.Broken())
			}
		})
	}
	if len(unbroken) > 0 {
		t.Errorf("no misbehaviour breaks %s", unbroken)
	}
}

// What keeps all rules and has all capabilities shows that no rule is passed over.
func TestPluginThatKeepsTheRules(t *testing.T) {
	t.Parallel()
	o := Options{Cases: []Case{fakeCase()}, Env: []string{misbehaviourEnv + "="}, Output: t.Output()}
	report, err := Binary(t.Context(), testBinary(t), o)
	if err != nil {
		t.Fatal(err)
	}
	expectPassed(t, report, Rules()...)
	if !report.Conforms() || report.Info == nil || report.Info.Name != "fake" {
		t.Errorf("expected a report about a conforming plugin fake, but found %+v", report)
	}
}

// A plugin of nothing but hooks has to keep what applies to it, and is not held to what only a deployer can.
func TestHooksAlone(t *testing.T) {
	t.Parallel()
	report := examine(t, "HooksAlone")
	if diff := cmp.Diff([]v1alpha1.DeployItemType{fakeType}, report.Info.HookedTypes); diff != "" {
		t.Errorf("hooked types (-want +got):\n%s", diff)
	}
	expectPassed(t, report, RuleHealth, RuleInfo, RuleHooks, RulePanics)
}

func TestWithoutCasesAndProcess(t *testing.T) {
	t.Parallel()
	report, err := Attached(t.Context(), serveAttachable(t, misbehaviour{}), Options{KeepConfiguration: true})
	if err != nil {
		t.Fatal(err)
	}
	expectPassed(t, report, RuleHealth, RuleInfo, RuleSchemas, RuleHooks, RuleCredentials, RuleHoldings, RuleMetrics,
		RuleWatch, RulePanics, RuleStartFirst, RuleTexts, RuleValidate, RuleUnknownIgnored, RuleStop,
		RuleLargeMessages, RuleConcurrentCalls, RuleCallEnds, RuleOneResult, RuleHeartbeat,
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
	address := serveAttachable(t, misbehaviour{})
	for name, item := range map[string]*v1alpha1.DeployItem{
		"no item": nil, "no configuration": DeployItem(fakeType, nil), "a list": DeployItem(fakeType, []byte(`["a"]`)),
	} {
		_, err := Attached(t.Context(), address, Options{Cases: []Case{{Name: name, Call: Call{DeployItem: item}}}})
		if err == nil || !strings.Contains(err.Error(), name) {
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

// A process that is stopped answers nothing, not even the order to end. The checks end nevertheless, and leave no
// process behind.
func TestNothingIsLeftOfAPluginThatHangs(t *testing.T) {
	t.Parallel()
	pids := filepath.Join(t.TempDir(), "pids")
	examine(t, "Hangs", pidFileEnv+"="+pids)
	noted, err := os.ReadFile(pids)
	if err != nil || len(strings.Fields(string(noted))) < 2 {
		t.Fatalf("expected a plugin and its child, but found %q (%v)", noted, err)
	}
	for _, text := range strings.Fields(string(noted)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		await.That(t, 10*time.Second, fmt.Sprintf("process %d to be gone", pid), func() bool { return !alive(pid) })
	}
}

// alive reports whether a process runs. An orphan that is dead waits for init to notice, which may never come in a
// container.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
