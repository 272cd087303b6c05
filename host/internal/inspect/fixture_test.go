package inspect_test

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// noon is a time, and at one after it.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(after time.Duration) time.Time { return noon.Add(after) }

var helmDeployer = v1alpha1.DeployerInformation{Identity: "pergola-0", Name: "helm", Version: "v1.2.0"}

type step func(*v1alpha1.DeployItem)

// newItem returns an item of generation 2 that was created at noon, after some steps.
func newItem(steps ...step) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "uid", Generation: 2, CreationTimestamp: metav1.Time{Time: noon},
		},
		Spec: v1alpha1.DeployItemSpec{
			Type: "landscaper.gardener.cloud/helm", Target: &v1alpha1.ObjectReference{Name: "here"}, Context: "default",
			Config: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Any","password":"t0ps3cret"}`)},
		},
	}
	for _, s := range steps {
		s(item)
	}
	return item
}

// The steps of the life of an item, each so long after noon.
func jobSet(id string, after time.Duration) step {
	return func(i *v1alpha1.DeployItem) { contract.SetJob(i, id, at(after)) }
}

func unserved(i *v1alpha1.DeployItem) { contract.SetUnserved(i, "no plugin here serves it", noon) }

func pickedUp(after time.Duration) step {
	return func(i *v1alpha1.DeployItem) { contract.Begin(i, i.DeletionTimestamp != nil, helmDeployer, at(after)) }
}

func queued(after time.Duration) step {
	return func(i *v1alpha1.DeployItem) {
		contract.Enqueue("a free worker")(i, i.DeletionTimestamp != nil, helmDeployer, at(after))
	}
}

func waits(text string, after time.Duration) step {
	return func(i *v1alpha1.DeployItem) { contract.Wait(i, text, at(after)) }
}

func retries(e contract.Error, after time.Duration) step {
	return func(i *v1alpha1.DeployItem) { contract.Retry(i, e, at(after)) }
}

func fails(e contract.Error, after time.Duration) step {
	return func(i *v1alpha1.DeployItem) { contract.Fail(i, i.DeletionTimestamp != nil, e, at(after)) }
}

// retried fails, with a next try five minutes after noon.
func retried(i *v1alpha1.DeployItem) {
	refused := contract.Error{Operation: "Apply", Reason: "Refused", Message: "no"}
	contract.Pauses{First: 5 * time.Minute, Longest: time.Hour}.Fail(i, false, refused, 0, noon)
}

func paused(i *v1alpha1.DeployItem) {
	contract.SetPaused(i, true)
	contract.ShowPaused(i, noon)
}

// deleted is the deletion, which raises the generation.
func deleted(i *v1alpha1.DeployItem) {
	i.DeletionTimestamp = &metav1.Time{Time: noon}
	i.Finalizers = []string{v1alpha1.Finalizer}
	i.Generation++
}

func changed(i *v1alpha1.DeployItem) { i.Generation++ }

func asks(operation string) step {
	return func(i *v1alpha1.DeployItem) {
		i.Annotations = map[string]string{v1alpha1.OperationAnnotation: operation}
	}
}

// accepts is what a host does first about an operation.
func accepts(newJob string, after time.Duration) step {
	return func(i *v1alpha1.DeployItem) { contract.AcceptOperation(i, newJob, 5*time.Minute, at(after)) }
}

// The lives of items.
var (
	underWay = []step{
		jobSet("job-1", time.Second), pickedUp(2 * time.Second), waits("Deployment shop/web: Available: 1/3", 4*time.Second),
	}
	succeeded = slices.Concat(underWay[:2], []step{
		func(i *v1alpha1.DeployItem) { contract.Succeed(i, at(9*time.Second)) },
	})
	broken = slices.Concat(underWay[:2], []step{fails(errConfiguration, 9*time.Second)})
)

var errConfiguration = contract.Error{
	Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Parse", Reason: "ConfigInvalid",
	Message: "spec.config: unknown field \"manifest\"",
}

func after(life []step, more ...step) *v1alpha1.DeployItem {
	return newItem(slices.Concat(life, more)...)
}
