package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestStatusThatIsTooLarge: a job whose plugin wants to keep too much ends at once, with the size, and with the
// provider status that was saved last.
// Rule (troubleshooting.md#all-deployers): A status too large for the API server ends the job at once, with the size.
func TestStatusThatIsTooLarge(t *testing.T) {
	document := func(size int) []byte {
		return []byte(`{"apiVersion":"v1","kind":"Status","a":"` + strings.Repeat("x", size) + `"}`)
	}
	for name, call := range map[string]func(large []byte, o plugin.Observer) *plugin.Outcome{
		"result": func(large []byte, _ plugin.Observer) *plugin.Outcome {
			return &plugin.Outcome{Succeeded: &plugin.Succeeded{}, ProviderStatus: large}
		},
		"wait": func(large []byte, _ plugin.Observer) *plugin.Outcome {
			return &plugin.Outcome{InProgress: &plugin.InProgress{WaitingFor: "a Pod"}, ProviderStatus: large}
		},
		"saved": func(large []byte, o plugin.Observer) *plugin.Outcome {
			err := o.SaveProviderStatus(context.Background(), large)
			return &plugin.Outcome{Errors: []plugin.Error{{Message: fmt.Sprint(err)}}}
		},
	} {
		for _, size := range []int{1_700_000, 4 << 20} { // refused by etcd, and by the API server
			t.Run(fmt.Sprintf("%s of %d", name, size), func(t *testing.T) {
				b := newBenchOn(t, newServerAPI(t), func(
					ctx context.Context, _ plugin.Operation, o plugin.Observer,
				) (*plugin.Outcome, error) {
					err := o.SaveProviderStatus(ctx, document(10))
					return call(document(size), o), err
				})
				b.setJob()
				b.reconcile(t.Context())
				item := b.expectPhase(v1alpha1.DeployItemPhaseFailed)
				if e := item.Status.LastError; e.Reason != "StatusTooLarge" ||
					!strings.Contains(e.Message, fmt.Sprint(size/10_000)) {
					t.Errorf("found %s", describe(item))
				}
				if len(rawStatus(item)) > 100 || rawStatus(item) == "" || len(b.calls) != 1 {
					t.Errorf("expected the status that was saved, and one call, but found %.200s, %v", rawStatus(item), b.calls)
				}
			})
		}
	}
}

// TestStatusThatIsInvalid: another reason, because only the author of the plugin can help.
func TestStatusThatIsInvalid(t *testing.T) {
	b := newBench(t, succeeds)
	b.write = func(n int, do func() error) error {
		if n == writesOfAJob {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "DeployItem"}, "item", nil)
		}
		return do()
	}
	b.setJob()
	b.reconcile(t.Context())
	if e := b.read().Status.LastError; e == nil || e.Reason != "StatusRefused" || !strings.Contains(e.Message, "author") {
		t.Errorf("found %s", describe(b.read()))
	}
}

// TestItemThatCannotBeWritten: an event says what the status cannot.
// Rule (troubleshooting.md#a-deployitem-that-makes-no-progress): An event says that an item cannot be written.
func TestItemThatCannotBeWritten(t *testing.T) {
	b := newBench(t, succeeds)
	b.write = func(int, func() error) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "deployitems"}, "item", errors.New("a webhook says no"))
	}
	b.setJob()
	b.reconcile(t.Context())
	if event := <-b.events.Events; !strings.HasPrefix(event, "Warning DeployItemNotWritable ") ||
		!strings.Contains(event, "a webhook says no") {
		t.Errorf("found %q", event)
	}
}
