package inspect

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

// Evidence is what was read about an item. What could not be read is its zero value, and the error beside it says why.
type Evidence struct {
	Item *v1alpha1.DeployItem
	// Target is nil also for an item that has none.
	Target    *v1alpha1.ResolvedTarget
	TargetErr error
	// Exports is the Secret with the exports; nil also for an item that has none.
	Exports    *corev1.Secret
	ExportsErr error
	// Locks are the SyncObjects of the item's namespace.
	Locks    []v1alpha1.SyncObject
	LocksErr error
	// Registrations are all DeployerRegistrations.
	Registrations    []v1alpha1.DeployerRegistration
	RegistrationsErr error
	// Events are those of the item, in any order.
	Events    []eventsv1.Event
	EventsErr error
	// Now is when all of it was read.
	Now time.Time
}

// Account is everything that is known about an item.
type Account struct {
	Summary

	UID                string            `json:"uid"`
	Generation         int64             `json:"generation"`
	ObservedGeneration int64             `json:"observedGeneration"`
	Context            string            `json:"context,omitempty"`
	Timeout            v1alpha1.Duration `json:"timeout,omitempty"`
	// WaitingFor is what a job under way waits for, and WaitingSince since when.
	WaitingFor   string         `json:"waitingFor,omitempty"`
	WaitingSince *v1alpha1.Time `json:"waitingSince,omitempty"`
	// Operation is what somebody asks for and nobody has taken up yet.
	Operation string `json:"operation,omitempty"`
	// LastError is that of the job, Advice says what to do about it, and LastErrors are those before it, with it.
	LastError  *v1alpha1.Error      `json:"lastError,omitempty"`
	Advice     string               `json:"advice,omitempty"`
	LastErrors []*v1alpha1.Error    `json:"lastErrors,omitempty"`
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`
	// TargetAccount, Exports and Lock are nil if the item has none.
	TargetAccount *TargetAccount `json:"targetAccount,omitempty"`
	Exports       *ExportAccount `json:"exports,omitempty"`
	Lock          *LockAccount   `json:"lock,omitempty"`
	// Managed is how many objects the deployer says that it manages; nil if it says nothing about that.
	Managed *int `json:"managed,omitempty"`
	// Due is when the item is reconciled again although nothing has changed, if it is by the schedule in its configuration.
	Due   *v1alpha1.Time `json:"due,omitempty"`
	Hooks []HookAccount  `json:"hooks,omitempty"`
	// Events from the oldest to the newest.
	Events []EventAccount `json:"events,omitempty"`
	// Unread says what could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// TargetAccount is what is known about the Target of an item.
type TargetAccount struct {
	Name string              `json:"name"`
	Type v1alpha1.TargetType `json:"type,omitempty"`
	// Server is the address of the cluster that it leads to, if it is one.
	Server string `json:"server,omitempty"`
	// Problem says why it leads nowhere; empty if it does not.
	Problem string `json:"problem,omitempty"`
}

// ExportAccount is what is known about the exports of an item: the names of their keys and no value.
type ExportAccount struct {
	Secret string   `json:"secret"`
	Keys   []string `json:"keys,omitempty"`
}

// LockAccount says who holds the lock of an item, since when.
type LockAccount struct {
	SyncObject string         `json:"syncObject"`
	Holder     string         `json:"holder"`
	Since      *v1alpha1.Time `json:"since,omitempty"`
}

// HookAccount is an HTTP hook that takes part in the jobs of an item.
type HookAccount struct {
	Registration string                    `json:"registration"`
	Capabilities []v1alpha1.HookCapability `json:"capabilities,omitempty"`
	// Ready is what the registration says of the hook: True, False or Unknown; empty if it says nothing.
	Ready   v1alpha1.ConditionStatus `json:"ready,omitempty"`
	Message string                   `json:"message,omitempty"`
}

// EventAccount is an event of an item.
type EventAccount struct {
	Time    v1alpha1.Time `json:"time"`
	Type    string        `json:"type"`
	Reason  string        `json:"reason"`
	Message string        `json:"message"`
	// Count is how often it came.
	Count int32 `json:"count"`
}

// NewAccount makes an account of what was read.
func NewAccount(e Evidence) *Account {
	item := e.Item
	status := &item.Status
	a := &Account{
		Summary: Summarize(item), UID: string(item.UID), Generation: item.Generation, ObservedGeneration: status.ObservedGeneration,
		Context: item.Spec.Context, Timeout: item.Spec.Timeout, Operation: item.Annotations[v1alpha1.OperationAnnotation],
		LastError: status.LastError, Advice: adviceOf(item), LastErrors: status.LastErrors, Conditions: status.Conditions,
		TargetAccount: targetAccount(e), Lock: lockOf(item, e.Locks), Hooks: hooksOf(item, e.Registrations), Events: eventsOf(e.Events),
	}
	if c := conditionOf(status, contract.ConditionReconciling); c != nil && a.Job.State != JobDone {
		a.WaitingFor, a.WaitingSince = c.Message, &c.LastUpdateTime
	}
	if objects, ok := ManagedObjects(item); ok {
		n := len(objects)
		a.Managed = &n
	}
	for _, unread := range []struct {
		what string
		err  error
	}{{"the exports", e.ExportsErr}, {"the locks", e.LocksErr}, {"the HTTP hooks", e.RegistrationsErr}, {"the events", e.EventsErr}} {
		// Of what the cluster has no kind of there is nothing to read: a Landscaper has no DeployerRegistrations.
		if unread.err != nil && !meta.IsNoMatchError(unread.err) {
			a.Unread = append(a.Unread, unread.what+": "+unread.err.Error())
		}
	}
	a.noteExports(e)
	a.noteDue(item)
	return a
}

func targetAccount(e Evidence) *TargetAccount {
	ref := e.Item.Spec.Target
	if ref == nil {
		return nil
	}
	account := &TargetAccount{Name: ref.Name}
	if e.TargetErr != nil {
		account.Problem = e.TargetErr.Error()
	}
	if e.Target == nil {
		return account
	}
	account.Type = e.Target.Target.Spec.Type
	if account.Type == v1alpha1.KubernetesClusterTargetType {
		account.Server = serverOf(e.Target.Content)
	}
	return account
}

// serverOf is the address of the cluster in the content of a Target, without anything that could be a secret; empty if it has none.
func serverOf(content string) string {
	var cluster struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := json.Unmarshal([]byte(content), &cluster); err != nil {
		return ""
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(cluster.Kubeconfig))
	if err != nil {
		return ""
	}
	address, err := url.Parse(config.Host)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: address.Scheme, Host: address.Host}).String()
}

// noteExports notes the keys of the exports.
func (a *Account) noteExports(e Evidence) {
	ref := e.Item.Status.ExportReference
	if ref == nil {
		return
	}
	a.Exports = &ExportAccount{Secret: ref.Name}
	if e.Exports == nil {
		return
	}
	var values map[string]json.RawMessage
	if err := yaml.Unmarshal(e.Exports.Data[exportKey], &values); err != nil {
		a.Unread = append(a.Unread, "the exports: the Secret "+ref.Name+" has no object under the key "+exportKey) // and nothing of what it has
		return
	}
	for key := range values {
		a.Exports.Keys = append(a.Exports.Keys, key)
	}
	slices.Sort(a.Exports.Keys)
}

// exportKey is the key of a Secret with exports that has all of them.
const exportKey = "config"

// noteDue notes when the item is due by its schedule.
func (a *Account) noteDue(item *v1alpha1.DeployItem) {
	began := item.Status.LastReconcileTime
	if item.Annotations[continuousreconcile.ActiveAnnotation] == "false" || item.DeletionTimestamp != nil || began.IsZero() {
		return
	}
	spec, err := continuousreconcile.ReadSpec(item)
	if err != nil || spec == nil {
		return // the job of the item says what is wrong with its configuration
	}
	schedule, err := continuousreconcile.Parse(spec.Every, spec.Cron)
	if err != nil {
		a.Unread = append(a.Unread, "the schedule: spec.config.continuousReconcile: "+err.Error())
		return
	}
	if due := schedule.Next(began.Time); due != nil {
		at := v1alpha1.NewTime(*due)
		a.Due = &at
	}
}

// lockOf returns the lock of an item; nil if nobody holds one.
func lockOf(item *v1alpha1.DeployItem, locks []v1alpha1.SyncObject) *LockAccount {
	for _, lock := range locks {
		ours := lock.Spec.Kind == v1alpha1.DeployItemGVK.Kind && lock.Spec.Name == item.Name && strings.HasSuffix(lock.Name, "-"+string(item.UID))
		if ours && lock.Spec.PodName != "" {
			return &LockAccount{SyncObject: lock.Name, Holder: lock.Spec.PodName, Since: &lock.Spec.LastUpdateTime}
		}
	}
	return nil
}

// hooksOf returns the HTTP hooks for the type of an item.
func hooksOf(item *v1alpha1.DeployItem, registrations []v1alpha1.DeployerRegistration) []HookAccount {
	var hooks []HookAccount
	for _, r := range registrations {
		if r.Spec.Hook == nil || !slices.Contains(r.Spec.Types, item.Spec.Type) {
			continue
		}
		hook := HookAccount{Registration: r.Name, Capabilities: r.Spec.Hook.Capabilities}
		for _, c := range r.Status.Conditions {
			if c.Type == contract.ConditionReady {
				hook.Ready, hook.Message = c.Status, c.Message
			}
		}
		hooks = append(hooks, hook)
	}
	return hooks
}

// eventsOf returns events in the order of their times.
func eventsOf(events []eventsv1.Event) []EventAccount {
	accounts := make([]EventAccount, 0, len(events))
	for i := range events {
		e := &events[i]
		accounts = append(accounts, EventAccount{
			Time: v1alpha1.NewTime(eventTime(e)), Type: e.Type, Reason: e.Reason, Message: e.Note, Count: eventCount(e),
		})
	}
	slices.SortStableFunc(accounts, func(a, b EventAccount) int { return a.Time.Compare(b.Time.Time) })
	return accounts
}

// eventTime is when an event came last.
func eventTime(e *eventsv1.Event) time.Time {
	for _, at := range []time.Time{seriesTime(e), e.DeprecatedLastTimestamp.Time, e.EventTime.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return e.CreationTimestamp.Time
}

func seriesTime(e *eventsv1.Event) time.Time {
	if e.Series == nil {
		return time.Time{}
	}
	return e.Series.LastObservedTime.Time
}

func eventCount(e *eventsv1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(1, e.DeprecatedCount)
}
