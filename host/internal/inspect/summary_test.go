package inspect_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestSummarize(t *testing.T) {
	t.Parallel()
	retrying := contract.Error{Operation: "Apply", Reason: "Unreachable", Message: "connection refused"}
	foreign := func(i *v1alpha1.DeployItem) {
		set, picked := v1alpha1.NewTime(at(time.Second)), v1alpha1.NewTime(at(2*time.Second))
		i.Status = v1alpha1.DeployItemStatus{JobID: "job-1", JobIDGenerationTime: &set, LastReconcileTime: &picked, Phase: v1alpha1.DeployItemPhaseProgressing}
	}
	type want struct {
		state   inspect.JobState
		message string
	}
	for _, tc := range []struct {
		reason string
		item   *v1alpha1.DeployItem
		want   want
	}{
		{reason: "a new item", item: newItem(), want: want{inspect.JobNone, "there was no job yet"}},
		{reason: "a job that nobody takes", item: newItem(jobSet("job-1", 0)), want: want{inspect.JobSet, "nobody has picked up the job yet"}},
		{reason: "a job without a worker", item: newItem(jobSet("job-1", 0), queued(time.Second)), want: want{inspect.JobQueued, "a free worker"}},
		{reason: "a job whose deployer says nothing", item: after(underWay[:2]), want: want{state: inspect.JobUnderWay}},
		{reason: "a job that waits", item: after(underWay), want: want{inspect.JobUnderWay, "Deployment shop/web: Available: 1/3"}},
		{reason: "a job that tries again", item: after(underWay, retries(retrying, 5*time.Second)), want: want{inspect.JobUnderWay, "another try, after: connection refused"}},
		{reason: "a job of another deployer than Pergola's", item: newItem(foreign), want: want{state: inspect.JobUnderWay}},
		{reason: "all is well", item: after(succeeded), want: want{state: inspect.JobDone}},
		{reason: "nothing is well", item: after(broken), want: want{inspect.JobDone, `ConfigInvalid: spec.config: unknown field "manifest"`}},
		{reason: "another job after a failure", item: after(broken, jobSet("job-2", time.Minute)), want: want{inspect.JobSet, "nobody has picked up the job yet"}},
	} {
		s := inspect.Summarize(tc.item)
		if diff := cmp.Diff(tc.want, want{s.Job.State, s.Message}, cmp.AllowUnexported(want{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestJobOf(t *testing.T) {
	t.Parallel()
	time8601 := func(seconds int) string { return noon.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339) }
	limit := func(d v1alpha1.Duration) step { return func(i *v1alpha1.DeployItem) { i.Spec.Timeout = d } }
	for _, tc := range []struct {
		reason string
		item   *v1alpha1.DeployItem
		want   string
	}{
		{reason: "none", item: newItem(), want: `{"state":"none"}`},
		{reason: "under way, with the usual time", item: after(underWay), want: `{"id":"job-1","state":"running","set":"` + time8601(1) + `","pickedUp":"` + time8601(2) + `","deadline":"` + time8601(602) + `"}`},
		{reason: "as long as it takes", item: newItem(append(underWay[:2:2], limit("none"))...), want: `{"id":"job-1","state":"running","set":"` + time8601(1) + `","pickedUp":"` + time8601(2) + `"}`},
		{reason: "the time of a queued job is not running", item: newItem(jobSet("job-1", time.Second), queued(2*time.Second)), want: `{"id":"job-1","state":"queued","set":"` + time8601(1) + `","pickedUp":"` + time8601(2) + `"}`},
		{reason: "done", item: after(succeeded), want: `{"id":"job-1","state":"done","set":"` + time8601(1) + `","pickedUp":"` + time8601(2) + `","finished":"` + time8601(9) + `"}`},
		{reason: "the times before are not those of a new job", item: after(succeeded, jobSet("job-2", 20*time.Second)), want: `{"id":"job-2","state":"set","set":"` + time8601(20) + `"}`},
	} {
		got, err := json.Marshal(inspect.JobOf(tc.item))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	long := contract.Error{Reason: "Long", Message: strings.Repeat("many words ", 20) + "\x1b[31m\nand lines"}
	items := []inspect.Summary{
		inspect.Summarize(newItem()),
		inspect.Summarize(after(underWay)),
		inspect.Summarize(after(succeeded, deleted)),
		inspect.Summarize(after(underWay[:2], fails(long, time.Minute))),
	}
	for name, columns := range map[string]inspect.Columns{"table.golden.txt": {}, "table-wide.golden.txt": {Wide: true, Namespace: true}} {
		expectGolden(t, name, columns.Table(items, at(3*time.Minute)))
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
