package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const testType v1alpha1.DeployItemType = "test.pergola.dev/one"

var now = time.Date(2024, time.March, 14, 12, 0, 0, 0, time.UTC)

// bench is a setter at a fake API server. A test has it reconcile.
type bench struct {
	*Setter
	t     *testing.T
	admin client.WithWatch
	item  *v1alpha1.DeployItem
	time  *clocktesting.FakePassiveClock
	// write is called instead of each write, with its kind and a function that does it.
	write func(kind string, do func() error) error
}

func newBench(t *testing.T, modify ...func(*v1alpha1.DeployItem)) *bench {
	t.Helper()
	admin, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, admin: admin, time: clocktesting.NewFakePassiveClock(now)}
	b.write = func(_ string, do func() error) error { return do() }
	b.Setter = &Setter{
		live: b.admin,
		client: interceptor.NewClient(b.admin, interceptor.Funcs{
			Patch: func(
				ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption,
			) error {
				return b.write(string(patch.Type()), func() error { return c.Patch(ctx, obj, patch, opts...) })
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch,
				opts ...client.SubResourcePatchOption,
			) error {
				return b.write(sub, func() error {
					err := c.SubResource(sub).Patch(ctx, obj, patch, opts...)
					if item, ok := obj.(*v1alpha1.DeployItem); ok && err == nil {
						expectWhole(t, item)
					}
					return err
				})
			},
		}),
		cache:   b.admin,
		serves:  func(itemType v1alpha1.DeployItemType) bool { return itemType == testType },
		options: allTimeouts,
		clock:   b.time,
		log:     slog.New(slog.DiscardHandler),
		memory:  newMemory(),
		random:  func() float64 { return 0 },
		wake:    make(chan event.TypedGenericEvent[struct{}], 1),
	}
	b.options.Elected = func(v1alpha1.DeployItemType) bool { return true }
	b.options.Unserved = func(v1alpha1.DeployItemType) string { return "" }
	b.item = &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: "job", Name: "item"}, Spec: v1alpha1.DeployItemSpec{Type: testType},
	}
	for _, m := range modify {
		m(b.item)
	}
	if err := admin.Create(t.Context(), b.item); err != nil {
		t.Fatal(err)
	}
	return b
}

// expectWhole expects an item that was written to have a job that was just set, or one that is finished in a final
// phase; or none.
func expectWhole(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	status := item.Status
	finished := status.JobID == status.JobIDFinished
	if finished && status.JobID != "" && !status.Phase.IsFinal() || !finished && status.TransitionTimes.InitTime != nil {
		t.Errorf("a status was written that is neither that of a new job nor that of a finished one: %+v", status)
	}
}

// reconcile reconciles the item once, and returns it as it is then.
func (b *bench) reconcile() *v1alpha1.DeployItem {
	b.t.Helper()
	if _, err := b.tryReconcile(); err != nil {
		b.t.Fatal(err)
	}
	return b.read()
}

func (b *bench) tryReconcile() (reconcile.Result, error) {
	return b.Reconcile(b.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.item)})
}

func (b *bench) read() *v1alpha1.DeployItem {
	b.t.Helper()
	fresh := &v1alpha1.DeployItem{}
	if err := b.admin.Get(b.t.Context(), client.ObjectKeyFromObject(b.item), fresh); err != nil {
		b.t.Fatal(err)
	}
	return fresh
}

func (b *bench) patch(patch string) {
	b.t.Helper()
	raw := client.RawPatch(types.MergePatchType, []byte(patch))
	if err := b.admin.Patch(b.t.Context(), b.item.DeepCopy(), raw); err != nil {
		b.t.Fatal(err)
	}
}

// pickUp and finish are the deployer's.
func (b *bench) pickUp() {
	b.t.Helper()
	item := b.read()
	before := item.DeepCopy()
	deployer := v1alpha1.DeployerInformation{Name: "one", Identity: "first", Version: "v1"}
	contract.Begin(item, item.DeletionTimestamp != nil, deployer, b.time.Now())
	contract.Progress(item)
	if err := b.admin.Status().Patch(b.t.Context(), item, client.MergeFrom(before)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) finish() {
	b.t.Helper()
	item := b.read()
	b.patchStatus(fmt.Sprintf(`{"phase":"Succeeded","observedGeneration":%d,"jobIDFinished":%q,`+
		`"transitionTimes":{"finishedTime":"2024-03-14T12:00:02Z"}}`, item.Status.ObservedGeneration, item.Status.JobID))
}

func (b *bench) patchStatus(status string) {
	b.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))
	if err := b.admin.Status().Patch(b.t.Context(), b.item.DeepCopy(), patch); err != nil {
		b.t.Fatal(err)
	}
}

func TestSetsAJobOnce(t *testing.T) {
	b := newBench(t)
	result, err := b.tryReconcile()
	item := b.read()
	if err != nil || result.RequeueAfter != allTimeouts.pickup() || item.Status.JobID == "" {
		t.Fatalf("expected a job that has to be picked up in time, but found %+v, %+v, %v", item.Status, result, err)
	}
	at := v1alpha1.NewTime(now.Local())
	want := v1alpha1.DeployItemStatus{
		JobID: item.Status.JobID, JobIDGenerationTime: &at, TransitionTimes: &v1alpha1.TransitionTimes{TriggerTime: &at},
	}
	if diff := cmp.Diff(want, item.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	annotations := map[string]string{
		v1alpha1.DeployerTypeAnnotation: string(testType), v1alpha1.DeployerTargetNameAnnotation: v1alpha1.NoTargetName,
	}
	if diff := cmp.Diff(annotations, item.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	b.pickUp()
	b.finish()
	b.patch(`{"spec":{"timeout":"1m"}}`)
	second := b.reconcile().Status
	if times := second.TransitionTimes; second.JobID == item.Status.JobID || times.InitTime != nil ||
		times.FinishedTime != nil {
		t.Errorf("expected a second job that nobody has picked up, but found %+v", second)
	}
}

func TestDeployerWritesMeanwhile(t *testing.T) {
	for _, kind := range []string{string(types.MergePatchType), "status"} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			writes := 0
			b.write = func(k string, do func() error) error {
				if k == kind {
					if writes++; writes == 1 {
						b.patchStatus(`{"observedGeneration":0,"phase":"Init"}`)
					}
				}
				return do()
			}
			if result, err := b.tryReconcile(); err != nil || result.RequeueAfter != pause || b.read().Status.JobID != "" {
				t.Errorf("expected another try after a conflict, but found %+v, %v", result, err)
			}
			if item := b.reconcile(); item.Status.JobID == "" {
				t.Errorf("expected a job, but found %+v", item.Status)
			}
		})
	}
}

// Rule (deploy-items.md#items-that-need-the-same): The end of the item that holds what a failed one needs starts a job
// of the failed one, even if no host was running at that time.
func TestHolderGone(t *testing.T) {
	b := newBench(t)
	holder := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: "job", Name: "holder"}, Spec: v1alpha1.DeployItemSpec{Type: "other"},
	}
	if err := b.admin.Create(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.pickUp()
	item := b.read()
	contract.Fail(item, false, contract.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Held:  contract.Held{By: client.ObjectKeyFromObject(holder), What: "release a"},
	}, now)
	if err := b.admin.Status().Update(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	if again := b.reconcile(); again.Status.JobID != item.Status.JobID || !b.isIdle(again) {
		t.Errorf("the holder is there, but found %+v", again.Status)
	}
	if err := b.admin.Delete(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	if again := b.reconcile(); again.Status.JobID == item.Status.JobID {
		t.Errorf("expected a job, but found %+v", again.Status)
	}
}
