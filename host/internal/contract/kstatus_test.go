package contract_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// kstatusOf is the status that kstatus computes for an item.
func kstatusOf(t *testing.T, item *v1alpha1.DeployItem) status.Status {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: fields})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// TestKstatus shows what kstatus, and with it Flux and others, says about an item at each moment.
// Rule (operators-guide.md#wait): kstatus says that an item is in progress until its current spec is deployed or has
// failed.
func TestKstatus(t *testing.T) {
	const inProgress, current, isFailed, terminating = status.InProgressStatus, status.CurrentStatus,
		status.FailedStatus, status.TerminatingStatus
	refused := contract.Error{Operation: "Apply", Reason: "Refused", Message: "no"}
	pauses := contract.Pauses{First: time.Minute, Longest: time.Hour}
	fresh := func(i *v1alpha1.DeployItem) {
		i.Generation, i.Status = 1, v1alpha1.DeployItemStatus{ObservedGeneration: -1}
	}
	set := func(i *v1alpha1.DeployItem) { contract.SetNewJob(i, i.Status.JobID+"+", noon) }
	edited := func(i *v1alpha1.DeployItem) { i.Generation++ }
	waits := func(i *v1alpha1.DeployItem) { contract.Wait(i, "the moon", noon) }
	retries := func(i *v1alpha1.DeployItem) { contract.Retry(i, refused, noon) }
	succeeds := func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon) }
	fails := func(i *v1alpha1.DeployItem) { contract.Fail(i, i.DeletionTimestamp != nil, refused, noon) }
	failsForNow := func(i *v1alpha1.DeployItem) { pauses.Fail(i, i.DeletionTimestamp != nil, refused, 0, noon) }
	tries := func(i *v1alpha1.DeployItem) { contract.SetTry(i, "try", 2, noon) }
	paused := func(i *v1alpha1.DeployItem) {
		annotated(contract.PausedAnnotation, "true")(i)
		contract.ShowPaused(i, noon)
	}
	unserved := func(i *v1alpha1.DeployItem) { contract.SetUnserved(i, "no plugin serves it", noon) }
	requested := func(i *v1alpha1.DeployItem) { deleted(i); edited(i) }
	for _, tc := range []struct {
		moment string
		life   []modifier
		want   status.Status
	}{
		{"created", nil, inProgress},
		{"created, and no plugin serves it", []modifier{unserved}, inProgress},
		{"created as paused", []modifier{paused}, inProgress},
		{"job set", []modifier{set}, inProgress},
		{"queued", []modifier{set, queued(0)}, inProgress},
		{"picked up", []modifier{set, begun}, inProgress},
		{"waiting", []modifier{set, begun, waits}, inProgress},
		{"retrying", []modifier{set, begun, retries}, inProgress},
		{"edited in its job", []modifier{set, begun, waits, edited}, inProgress},
		{"edited in its job, which succeeds", []modifier{set, begun, edited, succeeds}, inProgress},
		{"succeeded", []modifier{set, begun, succeeds}, current},
		{"paused", []modifier{set, begun, succeeds, paused}, current},
		{"unchanged in another job", []modifier{set, begun, succeeds, set, skipped}, current},
		{"edited", []modifier{set, begun, succeeds, edited}, inProgress},
		{"edited while paused", []modifier{set, begun, succeeds, paused, edited}, inProgress},
		{"edited, job set", []modifier{set, begun, succeeds, edited, set}, inProgress},
		{"edited, deployed", []modifier{set, begun, succeeds, edited, set, begun, succeeds}, current},
		{"failed", []modifier{set, begun, fails}, isFailed},
		{"failed, with a next try", []modifier{set, begun, failsForNow}, isFailed},
		{"next try set", []modifier{set, begun, failsForNow, tries}, inProgress},
		{"next try picked up", []modifier{set, begun, failsForNow, tries, begun}, inProgress},
		{"next try succeeded", []modifier{set, begun, failsForNow, tries, begun, succeeds}, current},
		{"failed, then edited", []modifier{set, begun, fails, edited}, inProgress},
		{"deletion requested", []modifier{set, begun, succeeds, requested}, terminating},
		{"deletion before a job", []modifier{requested}, terminating},
		{"deleting", []modifier{set, begun, succeeds, requested, set, begun, waits}, terminating},
		{"deletion failed, with a next try", []modifier{set, begun, requested, set, begun, failsForNow}, terminating},
	} {
		if got := kstatusOf(t, newItem(append([]modifier{fresh}, tc.life...)...)); got != tc.want {
			t.Errorf("%s: kstatus says %s instead of %s", tc.moment, got, tc.want)
		}
	}
}
