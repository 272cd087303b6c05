package inspect

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// passes is the remedy for errors that pass by themselves.
const passes = "nothing"

// remedies has what heals an error, by its reason. Errors with other reasons have a remedy by their codes.
var remedies = []struct {
	act     string
	reasons []string
}{
	{passes, []string{"TargetBusy", "NotPickedUp", "PluginUnhealthy", "NamespaceTerminating", "Pending"}},
	{"create the missing object, or correct its name", []string{
		contract.ReasonTargetNotFound, contract.ReasonSecretNotFound, contract.ReasonContextNotFound,
		string(target.ReasonServiceAccountNotFound), "NamespaceMissing", "ChartCredentialsMissing",
	}},
	{"install the CustomResourceDefinition on the target", []string{"UnknownKind"}},
	{"have an operator bind the role for tokens of Targets to the account of the host, in the namespace in the message " +
		"(rbac.targetTokenNamespaces of the chart)", []string{string(target.ReasonTokenForbidden)}},
	{"check the address in the Target, and its cluster", []string{"TargetUnreachable"}},
	{"have an operator see that a host runs with a plugin for the type, and that its target selectors match the Target",
		[]string{contract.ReasonPickupTimeout}},
	{"have an operator fix what the message names; the log of the host has more", []string{
		"HostError", "HostClusterUnavailable", "HostClusterError", "HostClusterNotGranted", "InstallationUnavailable",
		"HostTooOld", "HookNotRun", "HookNotReady", "HelperImageMissing", "ChartCacheFailed",
	}},
	{"look into the log of the host for the last output of the plugin", []string{contract.ReasonPluginCrashed}},
	{"report the bug to the author of the plugin, with the log of the host", []string{
		"PluginPanic", "PluginProtocolError", "StatusRefused", "ChartFetchPanic",
	}},
	{"check address, certificate and log of the server of the HTTP hook", []string{
		"HTTPHookFailed", "HTTPHookTimeout", "HookUnreachable", "HookPermanentError", "HookContractViolation",
	}},
}

// remedyFor returns what heals an error.
func remedyFor(e *v1alpha1.Error) string {
	has := func(code v1alpha1.ErrorCode) bool { return slices.Contains(e.Codes, code) }
	if grants := text.Grants(e.Message); grants != "" {
		return "grant the missing right, on the cluster that refuses it: " + grants
	}
	for _, remedy := range remedies {
		if slices.Contains(remedy.reasons, e.Reason) {
			return remedy.act
		}
	}
	switch {
	case has(v1alpha1.ErrorConfigurationProblem):
		return "correct the fields in the message"
	case has(v1alpha1.ErrorUnauthorized):
		return "correct the credentials in the message, or grant them the missing rights"
	case has(v1alpha1.ErrorTimeout):
		return "look at the objects with items tree; if they only need more time, raise spec.timeout"
	case has(v1alpha1.ErrorInternalProblem):
		return "look into the log of the host"
	default:
		return "fix the problem in the message"
	}
}

// Advice returns the advice about the last error of an item, beside its message; "" for none.
func Advice(item *v1alpha1.DeployItem) string {
	last := item.Status.LastError
	if last == nil || item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded {
		return ""
	}
	act := remedyFor(last)
	if !contract.Finished(item) {
		return act + "; the job tries again by itself until its timeout"
	}
	if act == passes { // the time of the job was too short for it
		act = "wait until the problem in the message has passed"
	}
	act += "; " + next(item)
	if item.DeletionTimestamp != nil {
		act += "; or delete the item without its objects: annotate it with " +
			v1alpha1.DeleteWithoutUninstallAnnotation + "=true"
	}
	return act
}

// next returns what follows the remedy for a failed job.
func next(item *v1alpha1.DeployItem) string {
	_, planned := contract.PlannedTry(item)
	configured := slices.Contains(item.Status.LastError.Codes, v1alpha1.ErrorConfigurationProblem)
	switch {
	case contract.FailedForMissingReference(item) && item.DeletionTimestamp != nil:
		return "the deletion goes on by itself then"
	case contract.FailedForMissingReference(item):
		return "a host with --standalone starts a new job then, otherwise use items trigger"
	case planned && !isPaused(item):
		return "the next try comes by itself, or at once with items trigger"
	case configured && item.DeletionTimestamp == nil:
		return "a change of the item starts a new job with Pergola or Landscaper, otherwise use items trigger"
	default:
		return "then start a new job with items trigger"
	}
}

// takeUp is the time in which a host takes up an item.
const takeUp = 10 * time.Second

// Hostless says that no host runs for an item that waits for one; "" for any other item. Hosts are nil if they may not
// be read: then it says since when no host has taken the item up.
func Hostless(item *v1alpha1.DeployItem, hosts *hostlease.Hosts, now time.Time) string {
	state, since := jobState(item), now.Sub(requested(item))
	dated := state == jobNone || state == jobSet || item.DeletionTimestamp != nil && state == jobDone
	observed := state == jobDone && item.Status.ObservedGeneration == item.Generation &&
		item.Annotations[v1alpha1.OperationAnnotation] == ""
	switch {
	case observed, runsElsewhere(&item.Status), contract.Unserved(item) != "":
		return ""
	case hosts == nil && (!dated || since < takeUp):
		return ""
	case hosts == nil:
		return fmt.Sprintf("no host has taken this up for %s; you may not list the Leases that show whether one is running",
			duration.HumanDuration(since))
	case hosts.Running:
		return ""
	case hosts.Last == "" && !dated: // its host may have its Lease in the cluster of its Pods
		return ""
	case hosts.Last == "":
		return "no host has a Lease in this cluster: none is running, unless its Pods are in another cluster"
	default:
		return fmt.Sprintf("no host is running: the last Lease, %s, was renewed %s ago",
			hosts.Last, duration.HumanDuration(now.Sub(hosts.Renewed)))
	}
}

// requested is the time of the last request for a job, as far as an item shows it.
func requested(item *v1alpha1.DeployItem) time.Time {
	at := item.CreationTimestamp.Time
	if set := item.Status.JobIDGenerationTime; !set.IsZero() {
		at = set.Time
	}
	if deleted := item.DeletionTimestamp; deleted != nil && deleted.After(at) {
		at = deleted.Time
	}
	return at
}
