package contract_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func drifted(message string) sdk.Condition {
	return sdk.Condition{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: message}
}

func TestCheckReported(t *testing.T) {
	t.Parallel()
	several := func(n int) []sdk.Condition {
		var all []sdk.Condition
		for i := range n {
			c := drifted("")
			c.Type = v1alpha1.ConditionType(fmt.Sprintf("Drifted%d", i))
			all = append(all, c)
		}
		return all
	}
	with := func(change func(*sdk.Condition)) []sdk.Condition {
		c := drifted("")
		change(&c)
		return []sdk.Condition{c}
	}
	typed := func(name string) []sdk.Condition {
		return with(func(c *sdk.Condition) { c.Type = v1alpha1.ConditionType(name) })
	}
	for _, tc := range []struct {
		reason   string
		reported []sdk.Condition
		want     string // part of the error; empty if nothing is wrong
	}{
		{reason: "none"},
		{reason: "one without a message", reported: several(1)},
		{reason: "as many as there may be", reported: several(8)},
		{reason: "more", reported: several(9), want: "expected at most 8, but found 9"},
		{reason: "the longest type", reported: typed(strings.Repeat("X", 63))},
		{reason: "a longer one", reported: typed(strings.Repeat("X", 64)), want: "conditions[0].type: expected a name in CamelCase"},
		{reason: "no type", reported: typed(""), want: "conditions[0].type"},
		{reason: "not in CamelCase", reported: typed("drifted"), want: `but found "drifted"`},
		{reason: "another word for a type", reported: typed("Drifted "), want: "conditions[0].type"},
		{reason: "a line more", reported: typed("Drifted\n"), want: "conditions[0].type"},
		{reason: "the host's", reported: typed("Ready"), want: "Ready is a condition that the host sets itself"},
		{reason: "twice", reported: append(several(2), several(1)...), want: "conditions[2].type: Drifted0 is there twice"},
		{reason: "no status", reported: with(func(c *sdk.Condition) { c.Status = "" }), want: `conditions[0].status: expected True, False or Unknown for Drifted, but found ""`},
		{reason: "another status", reported: with(func(c *sdk.Condition) { c.Status = "true" }), want: "conditions[0].status"},
		{reason: "no reason", reported: with(func(c *sdk.Condition) { c.Reason = "" }), want: "conditions[0].reason"},
		{reason: "a sentence", reported: with(func(c *sdk.Condition) { c.Reason = "It was so" }), want: `conditions[0].reason: expected a reason in CamelCase for Drifted, but found "It was so"`},
	} {
		err := contract.CheckReported(tc.reported)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: expected %q, but found: %v", tc.reason, tc.want, err)
		}
	}
}

// Each condition of this package is the host's, so that no deployer can report it.
func TestOwnConditionsAreTheHosts(t *testing.T) {
	t.Parallel()
	own := declaredConditions(t)
	want := sdk.HostConditions()
	slices.Sort(own)
	slices.Sort(want)
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	for _, conditionType := range own {
		c := drifted("")
		if c.Type = conditionType; contract.CheckReported([]sdk.Condition{c}) == nil {
			t.Errorf("a deployer can report %s", conditionType)
		}
	}
}

// declaredConditions are the constants of the package that are condition types.
func declaredConditions(t *testing.T) []v1alpha1.ConditionType {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var found []v1alpha1.ConditionType
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			selector, ok := spec.Type.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "ConditionType" || len(spec.Values) != 1 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, v1alpha1.ConditionType(text))
			}
			return true
		})
	}
	return found
}

func TestSetReported(t *testing.T) {
	t.Parallel()
	item := newItem(pickedUp(time.Second, v1alpha1.DeployItemPhaseProgressing))
	others := newCondition("Labelled", v1alpha1.ConditionFalse, "NotReported", "somebody else's", time.Second)
	item.Status.Conditions = append(item.Status.Conditions, others)
	want := slices.Clone(item.Status.Conditions)

	contract.SetReported(item, []sdk.Condition{drifted("spec.replicas")}, noon.Add(time.Minute))
	want = append(want, newCondition("Drifted", v1alpha1.ConditionTrue, "Repaired", "spec.replicas", time.Minute))
	failWith(t, "a new one is added, and others stay", cmp.Diff(want, item.Status.Conditions))

	contract.SetReported(item, []sdk.Condition{drifted("spec.replicas")}, noon.Add(time.Hour))
	failWith(t, "the same again changes nothing", cmp.Diff(want, item.Status.Conditions))

	contract.SetReported(item, nil, noon.Add(time.Hour))
	failWith(t, "one that is not reported stays", cmp.Diff(want, item.Status.Conditions))

	contract.SetReported(item, []sdk.Condition{drifted("data")}, noon.Add(2*time.Minute))
	want[2].Message, want[2].LastUpdateTime = "data", *at(2 * time.Minute)
	failWith(t, "another message is an update", cmp.Diff(want, item.Status.Conditions))

	contract.SetReported(item, []sdk.Condition{{Type: "Drifted", Status: v1alpha1.ConditionFalse, Reason: "AsDeployed"}}, noon.Add(3*time.Minute))
	want[2] = newCondition("Drifted", v1alpha1.ConditionFalse, "AsDeployed", "", 3*time.Minute)
	failWith(t, "another status is a transition", cmp.Diff(want, item.Status.Conditions))
}

// What a deployer has reported outlasts everything that becomes of jobs.
func TestReportedConditionsStay(t *testing.T) {
	t.Parallel()
	e := contract.Error{Operation: "Apply", Reason: "Refused", Message: "no"}
	steps := map[string]func(*v1alpha1.DeployItem, time.Time){
		"begin":     func(i *v1alpha1.DeployItem, now time.Time) { contract.Begin(i, false, deployer, now) },
		"delete":    func(i *v1alpha1.DeployItem, now time.Time) { contract.Begin(i, true, deployer, now) },
		"enqueue":   func(i *v1alpha1.DeployItem, now time.Time) { contract.Enqueue(i, false, deployer, now) },
		"set job":   func(i *v1alpha1.DeployItem, now time.Time) { contract.SetJob(i, "next", now) },
		"succeed":   contract.Succeed,
		"fail":      func(i *v1alpha1.DeployItem, now time.Time) { contract.Fail(i, false, e, now) },
		"retry":     func(i *v1alpha1.DeployItem, now time.Time) { contract.Retry(i, e, now) },
		"wait":      func(i *v1alpha1.DeployItem, now time.Time) { contract.Wait(i, "a pod", now) },
		"step":      func(i *v1alpha1.DeployItem, now time.Time) { contract.Step(i, "Apply", "it", now) },
		"crash":     func(i *v1alpha1.DeployItem, now time.Time) { contract.NoteCrashes(i, 1, now) },
		"settle":    contract.SettleConditions,
		"skip":      func(i *v1alpha1.DeployItem, now time.Time) { contract.FinishUnchanged(i, deployer, now) },
		"take over": func(i *v1alpha1.DeployItem, now time.Time) { contract.TakeOver(i, deployer, now) },
		"replaced":  func(i *v1alpha1.DeployItem, now time.Time) { contract.EndReplaced(i, false, now) },
	}
	names := make([]string, 0, len(steps))
	for name := range steps {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		item := newItem()
		contract.SetReported(item, []sdk.Condition{drifted("spec.replicas")}, noon)
		want := *conditionOf(item, "Drifted")
		for i, name := range rapid.SliceOf(rapid.SampledFrom(names)).Draw(t, "steps") {
			steps[name](item, noon.Add(time.Duration(i)*time.Minute))
		}
		c := conditionOf(item, "Drifted")
		if c == nil {
			t.Fatal("it is gone")
		}
		if diff := cmp.Diff(want, *c); diff != "" {
			t.Fatalf("it has changed (-want +got):\n%s", diff)
		}
	})
}
