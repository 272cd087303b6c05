package job

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		reason           string
		jobID, finished  string
		generation, seen int64
		operation        string
		want             need
	}{
		"new":                      {reason: "a new item needs its first job", generation: 1, want: needJob},
		"done":                     {reason: "the last job was for this item as it is", jobID: "a", finished: "a", generation: 1, seen: 1, want: needNothing},
		"under way":                {reason: "the job under way is for this item as it is", jobID: "b", finished: "a", generation: 1, seen: 1, want: needNothing},
		"changed":                  {reason: "a changed spec, or a deletion, needs a job", jobID: "a", finished: "a", generation: 2, seen: 1, want: needJob},
		"changed while under way":  {reason: "never two jobs at a time", jobID: "b", finished: "a", generation: 2, seen: 1, want: needPatience},
		"asked for":                {reason: "somebody asks", jobID: "a", finished: "a", generation: 1, seen: 1, operation: "reconcile", want: needJob},
		"asked for while running":  {reason: "never two jobs at a time", jobID: "b", finished: "a", generation: 1, seen: 1, operation: "reconcile", want: needPatience},
		"asked for something else": {reason: "no business of ours", jobID: "a", finished: "a", generation: 1, seen: 1, operation: "abort", want: needNothing},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Generation: tc.generation}}
			item.Status.JobID, item.Status.JobIDFinished, item.Status.ObservedGeneration = tc.jobID, tc.finished, tc.seen
			if tc.operation != "" {
				item.Annotations = map[string]string{v1alpha1.OperationAnnotation: tc.operation}
			}
			if got := decide(item); got != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}

// TestEachChangeGetsItsJobAndNoMore: whatever happens in whichever order, a job is set only while no other is under way, and
// once everything has come to rest, the last job was for the item as it is.
func TestEachChangeGetsItsJobAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2024, time.March, 14, 12, 0, 0, 0, time.UTC)
		item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		jobs, changes := 0, 1
		setter := func(*rapid.T) {
			if decide(item) != needJob {
				return
			}
			if item.Status.JobID != item.Status.JobIDFinished {
				t.Fatal("a job was set while another is under way")
			}
			jobs++
			if jobs > changes {
				t.Fatalf("%d jobs for %d changes", jobs, changes)
			}
			item.Status.JobID, item.Status.TransitionTimes = fmt.Sprint(jobs), nil
			item.Annotations = nil
		}
		deployer := func(finish bool) {
			switch decision := contract.Decide(item, now); decision.Action {
			case contract.PickUp:
				contract.Begin(item, decision.Deletion, v1alpha1.DeployerInformation{}, now)
			case contract.Continue:
				if finish {
					contract.Succeed(item, now)
				}
			case contract.Nothing, contract.Skip, contract.TimedOut:
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set":    setter,
			"change": func(*rapid.T) { item.Generation++; changes++ },
			"ask": func(*rapid.T) {
				item.Annotations = map[string]string{v1alpha1.OperationAnnotation: "reconcile"}
				changes++
			},
			"pick up": func(*rapid.T) { deployer(false) },
			"finish":  func(*rapid.T) { deployer(true) },
		})
		for range 4 {
			setter(nil)
			deployer(true)
			deployer(true)
		}
		if decide(item) != needNothing || item.Status.ObservedGeneration != item.Generation || item.Status.JobID != item.Status.JobIDFinished {
			t.Fatalf("at rest, but generation %d, observed %d, job %s, finished %s",
				item.Generation, item.Status.ObservedGeneration, item.Status.JobID, item.Status.JobIDFinished)
		}
	})
}
