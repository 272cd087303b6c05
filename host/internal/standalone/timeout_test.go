package standalone

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const earlierError = `{"operation":"Apply","reason":"Down","message":"the cluster is down",
	"lastTransitionTime":"2024-03-14T11:00:00Z","lastUpdateTime":"2024-03-14T11:00:00Z"}`

// wait lets time pass.
func (b *bench) wait(d time.Duration) { b.time.SetTime(b.time.Now().Add(d)) }

// countWrites counts the writes from now on.
func (b *bench) countWrites() *int {
	writes := 0
	b.write = func(_ string, do func() error) error {
		writes++
		return do()
	}
	return &writes
}

func TestPickupTimeout(t *testing.T) {
	const nobody = "no deployer has reconciled this deployitem within 300 seconds"
	target := func(i *v1alpha1.DeployItem) {
		i.Spec.Target = &v1alpha1.ObjectReference{Name: "there", Namespace: "elsewhere"}
	}
	for name, tc := range map[string]struct {
		reason   string
		modify   func(*v1alpha1.DeployItem)
		exists   bool // the Target does
		deletion bool
		message  string
		missing  bool
	}{
		// Rule (troubleshooting.md#all-deployers): A job without a pick-up fails with reason `PickupTimeout`.
		"no target": {reason: "there is nothing more to say", message: nobody, modify: func(*v1alpha1.DeployItem) {}},
		"target":    {reason: "it is there", modify: target, exists: true, message: nobody},
		"missing target": {reason: "deployers wait for it", modify: target, missing: true,
			message: nobody + ", probably because the referenced Target does not exist"},
		"deletion": {reason: "a deletion has its own phase", message: nobody, deletion: true,
			modify: func(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.modify)
			var err error
			switch {
			case tc.exists:
				err = b.admin.Create(t.Context(), &v1alpha1.Target{
					ObjectMeta: metav1.ObjectMeta{Namespace: b.item.Namespace, Name: "there"},
					Spec:       v1alpha1.TargetSpec{Type: v1alpha1.KubernetesClusterTargetType},
				})
			case tc.deletion:
				err = b.admin.Delete(t.Context(), b.item.DeepCopy())
			}
			if err != nil {
				t.Fatal(err)
			}
			jobID := b.reconcile().Status.JobID
			b.patchStatus(`{"lastErrors":[` + earlierError + `],` +
				`"providerStatus":{"apiVersion":"v1","kind":"Status","number":9007199254740993}}`)
			before := b.read()
			b.wait(allTimeouts.pickup())
			writes := b.countWrites()

			item := b.reconcile()

			if *writes != 1 {
				t.Errorf("%s: expected one write, but found %d", tc.reason, *writes)
			}
			at := v1alpha1.NewTime(b.time.Now().Local())
			e := &v1alpha1.Error{
				Operation: "WaitingForPickup", Reason: "PickupTimeout", Message: tc.message,
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorTimeout}, LastTransitionTime: at, LastUpdateTime: at,
			}
			if tc.missing {
				e.Operation = contract.OperationResolve // so that it gets a new job when the Target is there
			}
			want := before.DeepCopy().Status
			want.Phase, want.JobIDFinished, want.ObservedGeneration = v1alpha1.DeployItemPhaseFailed, jobID, item.Generation
			if tc.deletion {
				want.Phase = v1alpha1.DeployItemPhaseDeleteFailed
			}
			want.LastError, want.FirstError, want.LastErrors = e, e, []*v1alpha1.Error{e}
			want.TransitionTimes.FinishedTime = &at
			want.Conditions = item.Status.Conditions
			if diff := cmp.Diff(want, item.Status); diff != "" {
				t.Errorf("%s: status (-want +got):\n%s", tc.reason, diff)
			}

			if again := b.reconcile(); again.ResourceVersion != item.ResourceVersion {
				t.Errorf("%s: the same spec needs no other job, but found %+v", tc.reason, again.Status)
			}
		})
	}
}

// Rule (troubleshooting.md#all-deployers): A job fails with reason `ProgressingTimeout` when its deployer has died.
func TestProgressingTimeout(t *testing.T) {
	b := newBench(t, func(item *v1alpha1.DeployItem) { item.Spec.Timeout = "20m" })
	jobID := b.reconcile().Status.JobID
	b.pickUp()
	b.patchStatus(`{"firstError":` + earlierError + `,"lastErrors":[` + earlierError + `]}`)
	b.wait(21*time.Minute + contract.Resolution - 1)
	running := b.reconcile()
	if running.Status.JobIDFinished != "" {
		t.Fatalf("the deployer did not get its time: %+v", running.Status)
	}
	b.wait(1)
	writes := b.countWrites()
	item := b.reconcile()
	if *writes != 1 {
		t.Errorf("expected one write, but found %d", *writes)
	}
	const message = "the deployer one (first) has not ended the job in time and counts as dead"
	contract.Wait(running, "pod a/b", now)
	if got := deadDeployerError(running).Message; got != message+"; it was waiting for: pod a/b" {
		t.Errorf("expected the message to name the pod, but found %q", got)
	}
	if e := item.Status.LastError; e == nil || e.Reason != "ProgressingTimeout" || e.Message != message {
		t.Errorf("expected %q, but found %+v", message, e)
	}
	if s := item.Status; s.Phase != v1alpha1.DeployItemPhaseFailed || s.JobIDFinished != jobID ||
		s.ObservedGeneration != 1 || s.FirstError.Reason != "Down" || len(s.LastErrors) != 2 {
		t.Errorf("expected a failed job with all of its errors, but found %+v", item.Status)
	}
	b.wait(time.Minute)
	if item := b.reconcile(); item.Status.JobID == jobID || !contract.IsTry(item) {
		t.Errorf("expected another try, but found %+v", item.Status)
	}
}

// TestServedSince: while no plugin served the type, nobody could pick the job up.
func TestServedSince(t *testing.T) {
	b := newBench(t)
	b.reconcile()
	b.wait(time.Hour)
	b.Served([]v1alpha1.DeployItemType{testType})
	if item := b.reconcile(); item.Status.JobIDFinished != "" {
		t.Errorf("the deployer did not get its time: %+v", item.Status)
	}
	b.wait(allTimeouts.pickup())
	if item := b.reconcile(); item.Status.Phase != v1alpha1.DeployItemPhaseFailed {
		t.Errorf("expected the job to be ended, but found %+v", item.Status)
	}
}
