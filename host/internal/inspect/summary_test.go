package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestMessage(t *testing.T) {
	t.Parallel()
	retrying := contract.Error{Operation: "Apply", Reason: "Unreachable", Message: "connection refused"}
	foreign := func(i *v1alpha1.DeployItem) {
		set, picked := v1alpha1.NewTime(at(time.Second)), v1alpha1.NewTime(at(2*time.Second))
		i.Status = v1alpha1.DeployItemStatus{
			JobID: "job-1", JobIDGenerationTime: &set, LastReconcileTime: &picked, Phase: v1alpha1.DeployItemPhaseProgressing,
		}
	}
	for _, tc := range []struct {
		reason         string
		item           *v1alpha1.DeployItem
		state, message string
	}{
		{"a new item", newItem(), "none", "there was no job yet"},
		{"a job that nobody takes", newItem(jobSet("job-1", 0)), "set", "the job is not picked up yet"},
		{"a job without a worker", newItem(jobSet("job-1", 0), queued(time.Second)), "queued", "a free worker"},
		{"a job whose deployer says nothing", after(underWay[:2]), "running", ""},
		{"a job that waits", after(underWay), "running", "Deployment shop/web: Available: 1/3"},
		{
			"a job that tries again", after(underWay, retries(retrying, 5*time.Second)),
			"running", "another try, after: connection refused",
		},
		{"a job of another deployer", newItem(foreign), "running", ""},
		{"all is well", after(succeeded), "done", ""},
		{"nothing is well", after(broken), "done", `ConfigInvalid: spec.config: unknown field "manifest"`},
		{
			"another job after a failure", after(broken, jobSet("job-2", time.Minute)),
			"set", "the job is not picked up yet",
		},
	} {
		state, message := inspect.Table(noon, true, *tc.item).Rows[0].Cells[4], inspect.Message(tc.item)
		if state != tc.state || message != tc.message {
			t.Errorf("%s: expected %q, %q, but found %q, %q", tc.reason, tc.state, tc.message, state, message)
		}
	}
}

// Rule (deploy-items.md#view): A list shows a spec that is not taken up, the time to the next try, and a pause.
func TestTable(t *testing.T) {
	t.Parallel()
	tooLong := after(underWay[:2], fails(contract.Error{
		Reason: "Long", Message: strings.Repeat("many words ", 20) + "\x1b[31m\nand lines",
	}, time.Minute))
	const failed = "web|helm|here|Failed|done|3m|job-1|helm v1.2.0 of pergola-0|Long: "
	for _, tc := range []struct {
		reason string
		item   *v1alpha1.DeployItem
		wide   bool
		want   string
	}{
		{"no job", newItem(), false, "web|helm|here|-|none|3m|-|-|there was no job yet"},
		{
			"to be deleted", after(succeeded, deleted), false,
			"web|helm|here|Succeeded (to be deleted)|done|3m|job-1|helm v1.2.0 of pergola-0|-",
		},
		{
			"another try", after(underWay[:2], retried), false,
			"web|helm|here|Failed|done|3m|job-1|helm v1.2.0 of pergola-0|try 2 in 2m; Refused: no",
		},
		{
			"changed while paused", after(succeeded, paused, changed), false,
			"web|helm|here|Succeeded|done|3m|job-1|helm v1.2.0 of pergola-0|paused; generation 3 is not taken up yet",
		},
		{
			"paused before another try", after(underWay[:2], retried, paused), false,
			"web|helm|here|Failed|done|3m|job-1|helm v1.2.0 of pergola-0|paused; Refused: no",
		},
		{"paused without a job", newItem(paused), false, "web|helm|here|-|none|3m|-|-|paused; there was no job yet"},
		{"a long message is cut", tooLong, false, failed + strings.Repeat("many words ", 4) + "many word…"},
		{
			"a wide list has all of it, as text", tooLong, true,
			failed + strings.Repeat("many words ", 20) + `\x1b[31m\nand lines`,
		},
	} {
		var got []string
		for _, cell := range inspect.Table(at(3*time.Minute), tc.wide, *tc.item).Rows[0].Cells {
			got = append(got, cell.(string))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, "|")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestTypes(t *testing.T) {
	t.Parallel()
	for text, full := range map[string]v1alpha1.DeployItemType{
		"helm": "landscaper.gardener.cloud/helm", "example.org/helm": "example.org/helm",
	} {
		if got := inspect.FullType(text); got != full || inspect.ShortType(got) != text {
			t.Errorf("%s: found %s, which is %s", text, got, inspect.ShortType(got))
		}
	}
}
