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
		i.Status = v1alpha1.DeployItemStatus{JobID: "job-1", JobIDGenerationTime: &set, LastReconcileTime: &picked, Phase: v1alpha1.DeployItemPhaseProgressing}
	}
	type want struct {
		state   string
		message string
	}
	for _, tc := range []struct {
		reason string
		item   *v1alpha1.DeployItem
		want   want
	}{
		{reason: "a new item", item: newItem(), want: want{"none", "there was no job yet"}},
		{reason: "a job that nobody takes", item: newItem(jobSet("job-1", 0)), want: want{"set", "nobody has picked up the job yet"}},
		{reason: "a job without a worker", item: newItem(jobSet("job-1", 0), queued(time.Second)), want: want{"queued", "a free worker"}},
		{reason: "a job whose deployer says nothing", item: after(underWay[:2]), want: want{state: "running"}},
		{reason: "a job that waits", item: after(underWay), want: want{"running", "Deployment shop/web: Available: 1/3"}},
		{reason: "a job that tries again", item: after(underWay, retries(retrying, 5*time.Second)), want: want{"running", "another try, after: connection refused"}},
		{reason: "a job of another deployer than Pergola's", item: newItem(foreign), want: want{state: "running"}},
		{reason: "all is well", item: after(succeeded), want: want{state: "done"}},
		{reason: "nothing is well", item: after(broken), want: want{"done", `ConfigInvalid: spec.config: unknown field "manifest"`}},
		{reason: "another job after a failure", item: after(broken, jobSet("job-2", time.Minute)), want: want{"set", "nobody has picked up the job yet"}},
	} {
		cells := inspect.Table(noon, true, *tc.item).Rows[0].Cells
		if diff := cmp.Diff(tc.want, want{cells[4].(string), inspect.Message(tc.item)}, cmp.AllowUnexported(want{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	long := contract.Error{Reason: "Long", Message: strings.Repeat("many words ", 20) + "\x1b[31m\nand lines"}
	for _, tc := range []struct {
		reason string
		item   *v1alpha1.DeployItem
		wide   bool
		want   string
	}{
		{reason: "no job", item: newItem(), want: "web|helm|here|-|none|3m|-|-|there was no job yet"},
		{reason: "to be deleted", item: after(succeeded, deleted), want: "web|helm|here|Succeeded (to be deleted)|done|3m|job-1|helm v1.2.0 of pergola-0|-"},
		{
			reason: "a long message is cut", item: after(underWay[:2], fails(long, time.Minute)),
			want: "web|helm|here|Failed|done|3m|job-1|helm v1.2.0 of pergola-0|Long: many words many words many words many words many word…",
		},
		{
			reason: "a wide list has all of it, as text", item: after(underWay[:2], fails(long, time.Minute)), wide: true,
			want: "web|helm|here|Failed|done|3m|job-1|helm v1.2.0 of pergola-0|Long: " + strings.Repeat("many words ", 20) + `\x1b[31m\nand lines`,
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
	for text, full := range map[string]v1alpha1.DeployItemType{"helm": "landscaper.gardener.cloud/helm", "example.org/helm": "example.org/helm"} {
		if got := inspect.FullType(text); got != full || inspect.ShortType(got) != text {
			t.Errorf("%s: found %s, which is %s", text, got, inspect.ShortType(got))
		}
	}
}
