package items

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// expectAsked expects that an item is asked for an operation; "" for none.
func (s *shop) expectAsked(name, operation string) {
	s.t.Helper()
	item := &v1alpha1.DeployItem{}
	s.check(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, item))
	if got := item.Annotations[v1alpha1.OperationAnnotation]; got != operation {
		s.t.Errorf("expected %s to be asked for %q, but found %q", name, operation, got)
	}
}

// owned adds the execution of a Landscaper.
func owned(i *v1alpha1.DeployItem) {
	i.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Execution", Name: "shop", UID: "uid",
	}}
}

func TestItemsOperations(t *testing.T) {
	s := newShop(t)
	s.item("good", owned, setJob("job-1"), beginJob, succeed)
	s.item("busy", setJob("job-1"), beginJob, waitFor("a miracle"))
	s.expect([]itemsCase{
		{"a new job, although there are no executions", "trigger good", 0, []string{
			`warning: whether the execution "shop" is at work`, "good: asked for reconcile\n",
		}},
		{"the same again", "trigger good", 0, []string{"good: asked for reconcile"}},
		{"another operation meanwhile", "force-reconcile good", 1, []string{`asks for "reconcile" already`}},
		{"one is refused", "abort good busy", 1, []string{
			"busy: asked for abort", `NS/good" is not asked for "abort": it asks for "reconcile" already`,
		}},
		{"no such item", "trigger nobody", 2, []string{`there is no DeployItem "nobody"`}},
		{"no such label", "trigger -l app=none", 2, []string{`with the labels "app=none"`}},
		{"nothing says which", "abort", 2, []string{"-l"}},
		{"no host takes it up", "trigger good --wait --timeout=50ms", 3, []string{
			`the operation "reconcile", which is not taken up yet`,
		}},
	}...)
	s.expectAsked("good", "reconcile")
	s.expectAsked("busy", "abort")
}

// TestItemsPause: the list shows a pause when a host heeds it.
// Rule (deploy-items.md#next-tries): `pergola items pause` and `resume` set and remove the annotation of several items.
func TestItemsPause(t *testing.T) {
	s := newShop(t)
	s.item("web", setJob("job-1"), beginJob, succeed)
	s.item("db")
	heed := func(i *v1alpha1.DeployItem) { contract.ShowPaused(i, time.Now()) }
	isPaused := func(name string) bool { return contract.IsPaused(s.take(name)) }
	s.expect(itemsCase{"two by name", "pause web db", 0, []string{"db: paused\n", "web: paused\n"}})
	if !isPaused("web") || !isPaused("db") {
		t.Error("expected both to be paused")
	}
	s.take("web", heed)
	s.expect([]itemsCase{
		{"the list", "list -l app=web", 0, []string{" paused\n"}},
		{"the details", "show web", 0, []string{"Paused:       no job starts by itself"}},
		{"again", "pause web", 0, []string{"web: paused\n"}},
		{"the end, by label", "resume -l app=web", 0, []string{"web: resumed\n"}},
		{"the end without a pause", "resume web", 0, []string{"web: resumed\n"}},
		{"no such item", "pause nobody", 2, []string{`there is no DeployItem "nobody"`}},
		{"nothing says which", "resume", 2, []string{"-l"}},
	}...)
	if isPaused("web") || !isPaused("db") {
		t.Error("expected only db to be paused")
	}
}

// TestItemsMove: the request is in the item; package move has its rules.
func TestItemsMove(t *testing.T) {
	s := newShop(t)
	s.item("web", on("old"))
	s.expect([]itemsCase{
		{"to another", "move web --to new --order deploy-first", 0, []string{
			"web: asked to move from the Target old to new, deploy-first\n",
		}},
		{"to the same", "move web --to new", 2, []string{`the Target "new" is both the old and the new one`}},
		{"to nothing", "move web", 2, []string{"expected --to or --from"}},
		{"in no order", "move web --to newer --order first", 2, []string{`--order: expected remove-first or deploy-first`}},
	}...)
	if item := s.take("web"); item.Spec.Target.Name != "new" || item.Annotations[move.FromAnnotation] != "old" ||
		item.Annotations[move.OrderAnnotation] != string(move.DeployFirst) {
		t.Errorf("found the Target %s and %v", item.Spec.Target.Name, item.Annotations)
	}
}

// TestItemsOperationsWait: the wait is for the end of the requested job, and not for the end of the job before.
func TestItemsOperationsWait(t *testing.T) {
	s := newShop(t)
	accept := func(i *v1alpha1.DeployItem) { contract.AcceptOperation(i, "job-2", 5*time.Minute, time.Now()) }
	s.item("other")
	s.item("web", setJob("job-1"), beginJob, waitFor("a miracle"))
	trigger := s.start("trigger", "web", "--wait")
	trigger.until("web: Progressing: a miracle\n")
	s.take("other", setJob("job-1"))
	s.take("web", waitFor("a wonder"))
	trigger.until("web: Progressing: a wonder\n")
	s.take("web", succeed)
	trigger.until(`web: Succeeded: the operation "reconcile"`)
	s.take("web", accept)
	trigger.until("web: Succeeded\n")
	s.take("web", setJob("job-2"), beginJob)
	trigger.until("web: Init\n")
	s.take("web", failWith("no"))
	out, code, err := trigger.wait()
	if code != cli.ExitNo || !strings.Contains(err.Error(), "Broken: no") ||
		strings.Contains(out, "other") || strings.Count(out, "a miracle") != 1 {
		t.Errorf("expected each change once and the failure of the second job, but found %d, %v:\n%s", code, err, out)
	}

	s.take("web", setJob("job-3"), beginJob)
	abort := s.start("abort", "web", "--wait")
	abort.until("web: asked for abort")
	s.take("web", accept)
	s.take("web", failWith("aborted"))
	if out, code, err := abort.wait(); code != 0 || !strings.Contains(out, "web: ended") {
		t.Errorf("expected success after the abort of the job, but found %d, %v:\n%s", code, err, out)
	}
}

// TestItemsTriggerBesideLandscaper: while its execution is at work, an item is not asked.
func TestItemsTriggerBesideLandscaper(t *testing.T) {
	t.Parallel()
	scheme, err := testenv.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for finished, want := range map[string]string{
		"1": `its execution "shop" is at work`, "2": "web: asked for reconcile",
	} {
		item := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		owned(item)
		execution := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Execution", "metadata": map[string]any{"name": "shop"},
			"status": map[string]any{"jobID": "2", "jobIDFinished": finished},
		}}
		cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(item, execution).Build()
		var out bytes.Buffer
		w := &waiter{Cluster: &usercluster.Cluster{WithWatch: cluster}, stdout: &out, stderr: &out}
		refusals, err := w.askAll(t.Context(), []client.ObjectKey{{Name: "web"}}, v1alpha1.OperationReconcile)
		told := out.String() + fmt.Sprint(refusals)
		if err != nil || !strings.Contains(told, want) || (len(refusals) > 0) != (out.Len() == 0) {
			t.Errorf("finished %s: expected %q, but found %q, %v", finished, want, told, err)
		}
	}
}
