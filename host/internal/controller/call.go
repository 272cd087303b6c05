package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// stepInterval is how often what a plugin says of its progress is written to the item, at most.
	stepInterval = time.Second
	// maxEvents is how many events a plugin can have in one call.
	maxEvents = 20
)

// operationResolveOther is the operation of errors that concern a Target for which the plugin has asked. It is not
// that of the item's own, whose return lets a deletion begin anew.
const operationResolveOther = "ResolveOtherTarget"

// call calls the plugin, and the item's HTTP hook before it. The error is errOutdated if the call was cancelled
// because nobody wants it any more.
func (j *job) call(ctx context.Context, operation plugin.Operation, c plugin.Call) (*plugin.Outcome, error) {
	var outcome *plugin.Outcome
	err := j.attended(ctx, func(ctx context.Context, o *observer) error {
		var err error
		outcome, err = j.withHTTPHook(ctx, operation, c, o)
		return err
	})
	if errors.Is(err, errOutdated) {
		j.keepProviderStatus(ctx, outcome)
		return nil, err
	}
	return outcome, err
}

// attended does something that takes its time and keeps an eye on the item meanwhile: when somebody changes what it
// is for, such as by another job, a deletion, an abort or an interruption, the context of work is cancelled and the
// error is errOutdated.
func (j *job) attended(ctx context.Context, work func(context.Context, *observer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	attending, endAttendance := context.WithCancel(ctx)
	o := &observer{job: j, report: func(progress telemetry.Progress) { telemetry.Report(ctx, progress) }}
	signals, unsubscribe := j.r.memory.subscribe(keyOf(j.item))
	defer unsubscribe()
	var attendance sync.WaitGroup
	attendance.Go(func() { o.attend(attending, signals, cancel) })
	err := work(ctx, o)
	endAttendance()
	attendance.Wait()
	o.logDroppedEvents()
	j.step, j.message = o.takeStep()
	if !errors.Is(context.Cause(ctx), plugin.ErrInterrupted) {
		return err
	}
	why := "the deploy item asks for something else, or its job was ended"
	if j.lockLost() {
		why = "its lock was lost"
	}
	j.log.Info("cancelled the plugin's call", "why", why)
	return errOutdated
}

// keepProviderStatus writes what a plugin has reported with an outcome that does not count any more: it may name what
// the plugin has created, and whoever comes next must know of it; unless somebody has saved more by now.
func (j *job) keepProviderStatus(ctx context.Context, outcome *plugin.Outcome) {
	if outcome == nil || outcome.ProviderStatus == nil {
		return
	}
	err := checkProviderStatus(outcome.ProviderStatus)
	if err == nil {
		err = j.retryOutdated(ctx, func() error {
			return j.r.writer.status(ctx, j.item, withProviderStatus(outcome.ProviderStatus))
		}, func(fresh *v1alpha1.DeployItem) bool { return fresh.UID == j.item.UID && j.sameProviderStatus(fresh) })
	}
	if err != nil {
		j.log.Warn("the provider status of a call whose outcome does not count could not be kept", "error", err.Error())
	}
}

// observer hears what a plugin says about a job while it works on it.
type observer struct {
	job    *job
	report func(telemetry.Progress)
	begun  bool // the phase shows that the call is under way; of attend alone

	mu sync.Mutex
	// step and message are what the plugin said last about its progress; empty once that was written.
	step, message string
	// reported is what was reported last of the progress, and reportedAt when.
	reported   telemetry.Progress
	reportedAt time.Time
	// events are all that the plugin had in this call, those that were dropped included.
	events int
}

var _ plugin.Observer = (*observer)(nil)

// attend looks after the item until ctx ends: it writes the plugin's progress, and cancels the call when it has no
// purpose any more. signals tell that the item may have changed.
func (o *observer) attend(ctx context.Context, signals <-chan struct{}, cancel context.CancelCauseFunc) {
	ticker := o.job.r.clock.NewTicker(stepInterval)
	defer ticker.Stop()
	check := true // something may have happened before there were signals
	for {
		if check {
			err := o.check(ctx)
			if errors.Is(err, errOutdated) {
				cancel(plugin.ErrInterrupted)
				return
			}
			check = err != nil // an API error: again with the next tick
		}
		select {
		case <-ctx.Done():
			return
		case <-o.job.lock.Lost():
			cancel(fmt.Errorf("%w: %w", plugin.ErrInterrupted, lock.ErrLost))
			return
		case <-signals:
			check = true
		case <-ticker.C():
			o.writeStep(ctx)
		}
	}
}

// check finds out whether somebody else has changed the item, and if so, whether the call still makes sense. Metadata
// in the cache reports whether the item has changed at all.
func (o *observer) check(ctx context.Context) error {
	j := o.job
	j.mu.Lock()
	defer j.mu.Unlock()
	meta := NewMetadata()
	err := j.r.cache.Get(ctx, keyOf(j.item), meta)
	unchanged := err == nil && meta.UID == j.item.UID && !newer(meta.ResourceVersion, j.item.ResourceVersion)
	if unchanged || ctx.Err() != nil { // the call has ended
		return nil
	}
	return j.readAgain(ctx, j.stillWanted)
}

// Progress is written to the item if the call goes on for a while. Each step is reported, and what changes within one at
// most once in a stepInterval.
func (o *observer) Progress(step, message string) {
	o.job.log.Debug("plugin reports progress", "step", step, "message", message)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.step, o.message = step, message
	now, progress := o.job.r.clock.Now(), telemetry.Progress{Step: step, Text: message}
	if progress.Step != o.reported.Step || progress != o.reported && now.Sub(o.reportedAt) >= stepInterval {
		o.reported, o.reportedAt = progress, now
		o.report(progress)
	}
}

func (o *observer) takeStep() (step, message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	step, message = o.step, o.message
	o.step, o.message = "", ""
	return step, message
}

// writeStep shows the user that the call is under way, once, and what the plugin is doing. It is for information
// only: what cannot be written is followed by more.
func (o *observer) writeStep(ctx context.Context) {
	step, message := o.takeStep()
	if message == "" && o.begun {
		return
	}
	j := o.job
	err := j.writeStatus(ctx, func(item *v1alpha1.DeployItem) {
		contract.Progress(item)
		if message != "" {
			contract.Step(item, step, message, j.r.clock.Now())
		}
	})
	if o.begun = o.begun || err == nil; err != nil {
		j.log.Debug("progress could not be written", "error", err.Error())
	}
}

// SaveProviderStatus writes the provider status, and in the same write that the job is under way.
func (o *observer) SaveProviderStatus(ctx context.Context, document []byte) error {
	if err := checkProviderStatus(document); err != nil {
		return err
	}
	step, message := o.takeStep()
	return o.job.save(ctx, func(item *v1alpha1.DeployItem) {
		contract.Progress(item)
		if message != "" {
			contract.Step(item, step, message, o.job.r.clock.Now())
		}
		item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
	})
}

// checkProviderStatus returns what is wrong with a provider status. The API server takes it only as an object with a
// type.
func checkProviderStatus(document []byte) error {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(document, &meta); err != nil || meta.APIVersion == "" || meta.Kind == "" {
		return errors.New("provider status: expected a JSON object with apiVersion and kind")
	}
	return nil
}

// checkExports returns what is wrong with exports that others could not read.
func checkExports(s *plugin.Succeeded) error {
	if s == nil || s.Exports == nil {
		return nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(s.Exports, &values); err != nil || values == nil || !utf8.Valid(s.Exports) {
		return errors.New("exports: expected a JSON object in UTF-8")
	}
	return nil
}

// ResolveTarget resolves as for the item's own Target, by the same rules.
func (o *observer) ResolveTarget(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	resolved, err := o.job.r.targets.Named(ctx, o.job.snapshot().Namespace, name)
	if err == nil {
		return resolved, nil
	}
	e := asError(operationResolveOther, err)
	if e.Terminal && len(e.Codes) == 0 {
		// The protocol has no other word for what ends a job.
		e.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}
	}
	return nil, plugin.Error{Codes: e.Codes, Operation: operationResolveOther, Reason: e.Reason, Message: e.Message}
}

// ResolveRegistryCredentials reads as for the item's Context, by the same rules. An error is worth another try.
func (o *observer) ResolveRegistryCredentials(
	ctx context.Context, secret types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	return target.NamedCredentials(ctx, o.job.r.targets, o.job.snapshot().Namespace, secret)
}

// Event becomes an event of the deploy item, unless the plugin has had too many: they flood neither the API server
// nor the host's log.
func (o *observer) Event(warning bool, reason, message string) {
	eventType := corev1.EventTypeNormal
	if warning {
		eventType = corev1.EventTypeWarning
	}
	o.job.mu.Lock()
	defer o.job.mu.Unlock()
	switch o.events++; {
	case o.events < maxEvents:
		o.job.r.event(o.job.item, eventType, reason, message)
	case o.events == maxEvents:
		o.job.r.event(o.job.item, corev1.EventTypeWarning, "TooManyEvents",
			fmt.Sprintf("the plugin %q records more than %d events in one call; the others are dropped; "+
				"the first of them is in the host's log", o.job.r.name, maxEvents-1))
		o.job.log.Info("plugin has too many events; this is the first that is dropped",
			"type", eventType, "reason", reason, "message", message)
	default: // logDroppedEvents tells how many
	}
}

// logDroppedEvents logs, after the call, how many events the plugin had too many.
func (o *observer) logDroppedEvents() {
	o.job.mu.Lock()
	defer o.job.mu.Unlock()
	if dropped := o.events - maxEvents + 1; dropped > 0 {
		o.job.log.Info("events of the plugin were dropped", "count", dropped)
	}
}
