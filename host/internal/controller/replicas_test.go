package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// revision is a provider status that can be told from others.
func revision(n int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"test.pergola.dev/v1","kind":"Status","revision":%d}`, n)
}

// elsewhere is another host, which sets a job for the item and picks it up.
func (b *bench) elsewhere(changes ...func(*v1alpha1.DeployItem)) {
	b.t.Helper()
	item := b.read()
	contract.SetJob(item, "job-2", b.clock.Now())
	contract.Begin(item, false, v1alpha1.DeployerInformation{Identity: "there", Name: "one", Version: "v1"}, b.clock.Now())
	contract.Progress(item)
	for _, change := range changes {
		change(item)
	}
	if err := b.admin.Status().Update(b.t.Context(), item); err != nil {
		b.t.Fatal(err)
	}
}

func TestProviderStatusOfACancelledCall(t *testing.T) {
	cases := map[string]struct {
		reason string
		saved  []byte // by another host, meanwhile
		want   []byte
	}{
		"nothing newer": {reason: "what the plugin has created is not forgotten", want: revision(3)},
		"newer":         {reason: "another host knows more by now", saved: revision(2), want: revision(2)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.answer = func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
				if err := o.SaveProviderStatus(ctx, revision(1)); err != nil {
					return fails(err.Error())
				}
				b.elsewhere(withProviderStatus(tc.saved))
				b.memory.changed(client.ObjectKeyFromObject(b.item))
				<-ctx.Done()
				return &plugin.Outcome{Errors: []plugin.Error{{Message: "stopped"}}, ProviderStatus: revision(3)}, nil
			}
			b.setJob()
			b.look(t.Context())
			if diff := cmp.Diff(string(tc.want), rawStatus(b.read())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestLandscaperTakesOurJobAway: a Landscaper whose execution still runs answers each job of ours with its own, which
// is finished.
func TestLandscaperTakesOurJobAway(t *testing.T) {
	b := newBench(t, succeeds)
	landscapers := b.setJob()
	b.drive()
	b.answer = func(ctx context.Context, _ plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
		b.patchStatus(b.item, fmt.Sprintf(`{"jobID":%q}`, landscapers))
		b.memory.changed(keyOf(b.item))
		<-ctx.Done()
		return fails("stopped")
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	b.drive()
	item := expectPhase(t, b, v1alpha1.DeployItemPhaseFailed)
	if item.Status.LastError.Reason != "JobReplaced" || len(b.calls) != 2 {
		t.Errorf("expected one try that ends, but found %s, calls %v", describe(item), b.calls)
	}
	// And again when ours has succeeded before.
	b.answer = succeeds
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	b.drive()
	b.setJob()
	b.drive()
	calls := len(b.calls)
	for range 3 {
		b.patchStatus(b.item, fmt.Sprintf(`{"jobID":%q,"jobIDGenerationTime":%q}`, landscapers, b.clock.Now().UTC().Format(time.RFC3339)))
		b.drive()
	}
	if got := len(b.calls) - calls; got > 3 {
		t.Errorf("an operation was carried out again: %d calls for three jobs", got)
	}
}
