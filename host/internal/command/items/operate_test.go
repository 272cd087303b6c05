package items

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// asked is what an item is asked for.
func (s *shop) asked(name string) string {
	s.t.Helper()
	item := &v1alpha1.DeployItem{}
	s.check(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, item))
	return item.Annotations[v1alpha1.OperationAnnotation]
}

func TestItemsOperations(t *testing.T) {
	s := newShop(t)
	s.item("good", setJob("job-1"), beginJob, succeed)
	s.item("busy", setJob("job-1"), beginJob, waitFor("a miracle"))
	s.expect([]itemsCase{
		{"a new job", "trigger good", 0, []string{"good: asked for reconcile\n"}},
		{"the same again", "trigger good", 0, []string{"good: asked for reconcile"}},
		{"something else at the same time", "force-reconcile good", 1, []string{`asks for "reconcile" already`}},
		{"one that makes sense and one that does not", "abort good busy", 1, []string{
			"busy: asked for abort", `NS/good" is not asked for "abort": it asks for "reconcile" already`,
		}},
		{"none that there is", "trigger nobody", 2, []string{`there is no DeployItem "nobody"`}},
		{"none with the label", "trigger -l app=none", 2, []string{`the labels "app=none"`}},
		{"no rights", "trigger good --kubeconfig " + s.as("nobody"), 2, []string{"forbidden", "your own rights"}},
		{"all would be too many by mistake", "abort", 2, []string{"-l"}},
		{"nobody takes it up", "trigger good --wait --timeout=50ms", 3, []string{
			`the operation "reconcile", which is not taken up yet`,
		}},
	}...)
	for name, operation := range map[string]string{"good": "reconcile", "busy": "abort"} {
		if got := s.asked(name); got != operation {
			t.Errorf("expected %s to be asked for %q, but found %q", name, operation, got)
		}
	}
}

// TestItemsOperationsWait: the end of the job that was asked for is waited for, and not that of the one before.
func TestItemsOperationsWait(t *testing.T) {
	s := newShop(t)
	accept := func(i *v1alpha1.DeployItem) { contract.AcceptOperation(i, "job-2", 5*time.Minute, time.Now()) }
	s.item("web", setJob("job-1"), beginJob, waitFor("a miracle"))
	trigger := s.start("trigger", "web", "--wait")
	trigger.until("web: Progressing: a miracle")
	s.take("web", succeed)
	trigger.until(`web: Succeeded: the operation "reconcile"`)
	s.take("web", accept)
	trigger.until("web: Succeeded\n")
	s.take("web", setJob("job-2"), beginJob)
	trigger.until("web: Init\n")
	s.take("web", failWith("no"))
	if out, code, err := trigger.wait(); code != cli.ExitNo || !strings.Contains(err.Error(), "Broken: no") {
		t.Errorf("expected the failure of the second job, but found %d, %v:\n%s", code, err, out)
	}

	s.take("web", setJob("job-3"), beginJob)
	abort := s.start("abort", "web", "--wait")
	abort.until("web: asked for abort")
	s.take("web", accept)
	s.take("web", failWith("aborted"))
	if out, code, err := abort.wait(); code != 0 || !strings.Contains(out, "web: ended") {
		t.Errorf("expected an aborted job to be what was wanted, but found %d, %v:\n%s", code, err, out)
	}
}

// TestItemsTriggerBesideLandscaper: an item whose execution is at work is not asked.
func TestItemsTriggerBesideLandscaper(t *testing.T) {
	s := newShop(t)
	keep := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "executions.landscaper.gardener.cloud"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: v1alpha1.GroupName, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "executions", Kind: "Execution"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep},
				},
			}},
		},
	}
	options := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}
	owned := func(i *v1alpha1.DeployItem) {
		i.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Execution", Name: "shop", UID: "uid",
		}}
	}
	s.item("web", owned, setJob("job-1"), beginJob, succeed)
	s.expect(itemsCase{"there are no executions", "trigger web", 0, []string{
		`warning: whether the execution "shop" is at work`,
	}})
	if _, err := envtest.InstallCRDs(s.config, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(s.config, options); err != nil {
			t.Error(err)
		}
	})
	s.take("web", func(i *v1alpha1.DeployItem) { delete(i.Annotations, v1alpha1.OperationAnnotation) })
	execution := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Execution",
		"status": map[string]any{"jobID": "2", "jobIDFinished": "1"},
	}}
	execution.SetName("shop")
	execution.SetNamespace(s.namespace)
	s.create(execution)
	s.expect(itemsCase{"it is at work", "trigger web", 1, []string{`its execution "shop" is at work`}})
	if s.asked("web") != "" {
		t.Error("the item is asked nevertheless")
	}
	finished := client.RawPatch(types.MergePatchType, []byte(`{"status":{"jobIDFinished":"2"}}`))
	s.check(s.admin.Patch(t.Context(), execution, finished))
	s.expect(itemsCase{"it is finished", "trigger web", 0, []string{"web: asked for reconcile"}})
}
