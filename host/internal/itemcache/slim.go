package itemcache

import (
	"bytes"
	"slices"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// kept are the annotations of items in the cache.
var kept = []string{
	v1alpha1.DeployerTypeAnnotation, v1alpha1.DeployerTargetNameAnnotation, v1alpha1.OperationAnnotation,
	contract.AcceptedAnnotation, v1alpha1.DeleteWithoutUninstallAnnotation,
	contract.PausedAnnotation, contract.RetriesAnnotation,
}

// scheduled stands for the provider configuration of an item with a schedule.
var scheduled = &runtime.RawExtension{Raw: []byte(`{"` + sdkhook.ScheduleField + `":null}`)}

// Slim returns the part of an item with all fields for decisions, for a cache. Common texts are shared.
// It must not be written to the API server: it lacks fields.
func Slim(item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	slim := &v1alpha1.DeployItem{}
	slim.Name, slim.Namespace = item.Name, shared(item.Namespace)
	slim.UID, slim.ResourceVersion, slim.Generation = item.UID, item.ResourceVersion, item.Generation
	slim.CreationTimestamp, slim.DeletionTimestamp = item.CreationTimestamp, item.DeletionTimestamp
	if slices.Contains(item.Finalizers, v1alpha1.Finalizer) {
		slim.Finalizers = finalizers
	}
	slim.Annotations = slimAnnotations(item.Annotations)
	slim.Spec = slimSpec(&item.Spec)
	slim.Status = slimStatus(slim, item.Status)
	return slim
}

var finalizers = []string{v1alpha1.Finalizer}

func slimAnnotations(annotations map[string]string) map[string]string {
	var slim map[string]string
	for _, key := range kept {
		if value, ok := annotations[key]; ok {
			if slim == nil {
				slim = map[string]string{}
			}
			slim[key] = shared(value)
		}
	}
	return slim
}

func slimSpec(spec *v1alpha1.DeployItemSpec) v1alpha1.DeployItemSpec {
	slim := *spec
	slim.Type, slim.Context = v1alpha1.DeployItemType(shared(string(spec.Type))), shared(spec.Context)
	slim.Config = nil
	if HasSchedule(spec.Config) {
		slim.Config = scheduled
	}
	return slim
}

// HasSchedule reports whether a provider configuration may have a schedule.
func HasSchedule(config *runtime.RawExtension) bool {
	return config != nil && bytes.Contains(config.Raw, []byte(sdkhook.ScheduleField))
}

// slimStatus returns the status without its largest parts, and of an idle item nearly nothing: most items are idle.
func slimStatus(slim *v1alpha1.DeployItem, status v1alpha1.DeployItemStatus) v1alpha1.DeployItemStatus {
	status.ProviderStatus, status.LastErrors, status.FirstError = nil, nil, nil
	status.Deployer = v1alpha1.DeployerInformation{Identity: shared(status.Deployer.Identity)}
	slim.Status = status
	if !isIdle(slim) {
		return withoutErrorTexts(slim)
	}
	slim.Status = v1alpha1.DeployItemStatus{
		Phase: status.Phase, ObservedGeneration: status.ObservedGeneration, Deployer: status.Deployer,
		JobID: status.JobID, JobIDFinished: status.JobID, // one text
	}
	if !isIdle(slim) {
		return status
	}
	return slim.Status
}

// withoutErrorTexts returns the status of an item, of a failed one without the texts of the error: many can fail at
// once.
func withoutErrorTexts(item *v1alpha1.DeployItem) v1alpha1.DeployItemStatus {
	status := item.Status
	if !contract.Failed(item) || status.LastError == nil {
		return status
	}
	last := *status.LastError
	last.Message = ""
	status.LastError = &last
	status.Conditions = slices.Clone(status.Conditions)
	for i, c := range status.Conditions {
		if c.Type == contract.ConditionReady || c.Type == contract.ConditionStalled {
			status.Conditions[i].Message = ""
		}
	}
	return status
}

// isIdle reports whether an item needs nothing, in standalone mode too, before it changes.
func isIdle(item *v1alpha1.DeployItem) bool {
	_, tries := contract.KnownTry(item)
	return contract.Decide(item, time.Time{}).Action == contract.Nothing && !contract.FailedForMissingReference(item) &&
		!tries && contract.HeldOf(item) == (contract.Held{}) && contract.Unserved(item) == "" &&
		move.Of(item) == move.Still && contract.ShowsPaused(item) && !contract.IsUnhealthy(item)
}

func shared(text string) string { return unique.Make(text).Value() }
