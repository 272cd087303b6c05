package main

import (
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// asked is what an item is asked for.
func (s *shop) asked(name string) string {
	s.t.Helper()
	item := &v1alpha1.DeployItem{}
	if err := s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, item); err != nil {
		s.t.Fatal(err)
	}
	return item.Annotations[v1alpha1.OperationAnnotation]
}

func TestItemsOperations(t *testing.T) {
	s := newShop(t)
	s.item("good", setJob("job-1"), beginJob, succeed)
	s.item("busy", setJob("job-1"), beginJob, waitFor("a miracle"))
	for _, tc := range []struct {
		reason string
		args   []string
		code   int
		want   []string          // of the output and the error
		asked  map[string]string // by the names of items
	}{
		{reason: "a new job", args: []string{"trigger", "good"}, want: []string{"good: asked for reconcile\n"}, asked: map[string]string{"good": "reconcile"}},
		{reason: "the same again", args: []string{"trigger", "good"}, want: []string{"good: asked for reconcile"}, asked: map[string]string{"good": "reconcile"}},
		{reason: "something else at the same time", args: []string{"force-reconcile", "good"}, code: exitNo, want: []string{`asks for "reconcile" already`}, asked: map[string]string{"good": "reconcile"}},
		{
			reason: "one that makes sense and one that does not", args: []string{"abort", "good", "busy"}, code: exitNo,
			want: []string{"busy: asked for abort", s.namespace + `/good" is not asked for "abort": it asks for "reconcile" already`}, asked: map[string]string{"good": "reconcile", "busy": "abort"},
		},
		{reason: "none that there is", args: []string{"trigger", "nobody"}, code: exitFailure, want: []string{`there is no DeployItem "nobody"`}},
		{reason: "none with the label", args: []string{"trigger", "-l", "app=none"}, code: exitFailure, want: []string{`the labels "app=none"`}},
		{reason: "all would be too many by mistake", args: []string{"abort"}, code: exitFailure, want: []string{"-l"}},
		{reason: "nobody takes it up", args: []string{"trigger", "good", "--wait", "--timeout=50ms"}, code: exitTimeout, want: []string{`the operation "reconcile", which is not taken up yet`}},
	} {
		out, code, err := s.run(tc.args...)
		if code != tc.code {
			t.Errorf("%s: expected the exit code %d, but found %d: %v", tc.reason, tc.code, code, err)
		}
		if err != nil {
			out += err.Error()
		}
		for _, text := range tc.want {
			if !strings.Contains(out, text) {
				t.Errorf("%s: expected %q in %s", tc.reason, text, out)
			}
		}
		for name, operation := range tc.asked {
			if got := s.asked(name); got != operation {
				t.Errorf("%s: expected %s to be asked for %q, but found %q", tc.reason, name, operation, got)
			}
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
	if out, code, err := trigger.wait(); code != exitNo || !strings.Contains(err.Error(), "Broken: no") {
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
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	}
	owned := func(i *v1alpha1.DeployItem) {
		i.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Execution", Name: "shop", UID: "uid"}}
	}
	s.item("web", setJob("job-1"), beginJob, succeed, owned)
	out, code, err := s.run("trigger", "web")
	if code != 0 || !strings.Contains(out, `warning: whether the execution "shop" is at work`) {
		t.Errorf("expected a warning where there are no executions, but found %d, %v: %s", code, err, out)
	}
	if _, err := envtest.InstallCRDs(s.config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(s.config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition}}); err != nil {
			t.Error(err)
		}
	})
	s.take("web", func(i *v1alpha1.DeployItem) { delete(i.Annotations, v1alpha1.OperationAnnotation) })
	execution := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Execution", "status": map[string]any{"jobID": "2", "jobIDFinished": "1"},
	}}
	execution.SetName("shop")
	execution.SetNamespace(s.namespace)
	s.create(execution)
	if _, code, err := s.run("trigger", "web"); code != exitNo || !strings.Contains(err.Error(), `its execution "shop" is at work`) || s.asked("web") != "" {
		t.Errorf("expected a refusal, but found %d, %v", code, err)
	}
	if err := s.admin.Patch(t.Context(), execution, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"jobIDFinished":"2"}}`))); err != nil {
		t.Fatal(err)
	}
	if _, code, err := s.run("trigger", "web"); code != 0 || s.asked("web") != "reconcile" {
		t.Errorf("expected the item to be asked, but found %d, %v", code, err)
	}
}
