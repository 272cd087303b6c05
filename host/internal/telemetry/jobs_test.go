package telemetry

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestJobMetrics(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	work := func(of Kind, name, by, result string) Done {
		return Done{Work: Work{Of: of, Name: name, By: by}, Result: result, Took: 2 * time.Second}
	}
	none := []string{`pergola_job_retries_total{plugin="helm"} 0`, `pergola_job_takeovers_total{plugin="helm"} 0`}
	cases := map[string]struct {
		reason string
		events []Event
		jobID  string
		want   []string // without buckets
	}{
		"picked up": {
			reason: "a job that does not wait for its turn has waited for no time", jobID: "j",
			events: []Event{PickedUp{Triggered: ago(1500 * time.Millisecond)}},
			want: append([]string{
				`pergola_job_pickup_latency_seconds_count{plugin="helm"} 1`,
				`pergola_job_pickup_latency_seconds_sum{plugin="helm"} 1.5`,
				`pergola_job_queue_wait_seconds_count{plugin="helm"} 1`, `pergola_job_queue_wait_seconds_sum{plugin="helm"} 0`,
			}, none...),
		},
		"waits for its turn": {
			reason: "it counts once, and a clock that is ahead makes no negative times", jobID: "j",
			events: []Event{PickedUp{Triggered: now.Add(time.Minute), Queued: true}, Dequeued{Waited: 3 * time.Second}},
			want: append([]string{
				`pergola_job_pickup_latency_seconds_count{plugin="helm"} 1`,
				`pergola_job_pickup_latency_seconds_sum{plugin="helm"} 0`,
				`pergola_job_queue_wait_seconds_count{plugin="helm"} 1`, `pergola_job_queue_wait_seconds_sum{plugin="helm"} 3`,
			}, none...),
		},
		"ended": {
			reason: "by operation and phase", jobID: "j",
			events: []Event{
				Ended{Phase: v1alpha1.DeployItemPhaseSucceeded, PickedUp: ago(2 * time.Second)},
				Ended{Phase: v1alpha1.DeployItemPhaseFailed},
			},
			want: []string{
				`pergola_job_duration_seconds_count{operation="Delete",phase="Succeeded",plugin="helm"} 1`,
				`pergola_job_duration_seconds_sum{operation="Delete",phase="Succeeded",plugin="helm"} 2`,
				`pergola_jobs_total{operation="Delete",phase="Failed",plugin="helm"} 1`,
				`pergola_jobs_total{operation="Delete",phase="Succeeded",plugin="helm"} 1`,
			},
		},
		"trouble": {
			reason: "tries and take-overs", jobID: "j",
			events: []Event{Retries{}, Retries{}, TakenOver{}},
			want:   []string{`pergola_job_retries_total{plugin="helm"} 2`, `pergola_job_takeovers_total{plugin="helm"} 1`},
		},
		"work": {
			reason: "hooks have the name of their plugin; locks and HTTP hooks count elsewhere", jobID: "j",
			events: []Event{
				work(KindCall, "Delete", "helm", "inProgress"), work(KindHook, "Start", "policy", "abort"),
				work(KindRequest, "PATCH deployitems/status", "", "409"), work(KindLock, "", "", "done"),
				work(KindHTTPHook, "finalize", "r", "done"), Progress{Text: "x"}, Waits{For: "x"},
			},
			want: []string{
				`pergola_call_duration_seconds_count{operation="Delete",plugin="helm",result="inProgress"} 1`,
				`pergola_call_duration_seconds_sum{operation="Delete",plugin="helm",result="inProgress"} 2`,
				`pergola_hook_duration_seconds_count{plugin="policy",result="abort",type="Start"} 1`,
				`pergola_hook_duration_seconds_sum{plugin="policy",result="abort",type="Start"} 2`,
				`pergola_job_requests_total{code="409",method="PATCH",plugin="helm",resource="deployitems/status"} 1`,
			},
		},
		"no job": {
			reason: "a reconcile that comes to no job is none, but its hooks count",
			events: []Event{work(KindRequest, "GET deployitems", "", "200"), work(KindHook, "Start", "policy", "done")},
			want: []string{
				`pergola_hook_duration_seconds_count{plugin="policy",result="done",type="Start"} 1`,
				`pergola_hook_duration_seconds_sum{plugin="policy",result="done",type="Start"} 2`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m, registry := NewJobMetrics(), prometheus.NewPedanticRegistry()
			if err := m.Register(registry); err != nil {
				t.Fatal(err)
			}
			for _, e := range tc.events {
				m.Observe(Job{Plugin: "helm", UID: "uid", ID: tc.jobID, Operation: "Delete"}, now, e)
			}
			got := slices.DeleteFunc(samplesOf(t, registry), func(s string) bool { return strings.Contains(s, "_bucket{") })
			slices.Sort(got) // those of a histogram come with the sum first
			if diff := cmp.Diff(slices.Sorted(slices.Values(tc.want)), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
