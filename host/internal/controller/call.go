package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// stepInterval is the least pause between two writes of a plugin's progress.
const stepInterval = time.Second

// operationResolveOther is the operation of errors about a Target that the plugin has asked for. It differs from that
// of the item's own Target, whose return restarts a deletion.
const operationResolveOther = "ResolveOtherTarget"

// call calls the item's HTTP hook and then the plugin. The error is errOutdated if the call was cancelled because the
// item has changed.
func (j *job) call(ctx context.Context, operation plugin.Operation, c plugin.Call) (*plugin.Outcome, error) {
	var outcome *plugin.Outcome
	err := j.watched(ctx, func(ctx context.Context, o *observer) error {
		var err error
		outcome, err = j.withHTTPHook(ctx, operation, c, o)
		return err
	})
	if errors.Is(err, itemclient.ErrOutdated) {
		j.keepProviderStatus(ctx, outcome)
		return nil, err
	}
	return outcome, err
}

// watched does work while the item is watched. When the item asks for something else, such as another job, a deletion,
// an abort or an interruption, or its lock is lost, the context of work is cancelled and the error is errOutdated.
func (j *job) watched(ctx context.Context, work func(context.Context, *observer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching, endWatch := context.WithCancel(ctx)
	o := newObserver(j)
	o.report = func(progress telemetry.Progress) { telemetry.Report(ctx, progress) }
	signals, unsubscribe := j.r.memory.subscribe(keyOf(j.item))
	defer unsubscribe()
	var watch sync.WaitGroup
	watch.Go(func() { o.watch(watching, signals, cancel) })
	err := work(ctx, o)
	endWatch()
	watch.Wait()
	o.events.End()
	j.told = j.told || o.events.Normal()
	j.step, j.message = o.takeStep()
	if !errors.Is(context.Cause(ctx), plugin.ErrInterrupted) {
		return err
	}
	why := "the deploy item asks for something else, or its job was ended"
	if j.lockLost() {
		why = "its lock was lost"
	}
	j.log.Info("cancelled the plugin's call", "why", why)
	return itemclient.ErrOutdated
}

// keepProviderStatus writes the provider status of an outcome that is discarded, unless somebody has written another
// one meanwhile: it may name what the plugin has created, which the next call must know.
func (j *job) keepProviderStatus(ctx context.Context, outcome *plugin.Outcome) {
	if outcome == nil || outcome.ProviderStatus == nil || j.stored != nil { // or it has created nothing
		return
	}
	err := checkProviderStatus(outcome.ProviderStatus)
	if err == nil {
		err = j.retryOutdated(ctx, func() error {
			return j.r.items.UpdateStatus(ctx, j.item, withProviderStatus(outcome.ProviderStatus))
		}, func(fresh *v1alpha1.DeployItem) bool { return fresh.UID == j.item.UID && j.sameProviderStatus(fresh) })
	}
	if err != nil {
		j.log.Warn("the provider status of a discarded outcome could not be written", "error", err.Error())
	}
}

// observer gets what a plugin reports during a call.
type observer struct {
	job    *job
	events *itemevents.Call
	report func(telemetry.Progress)
	shown  bool // the phase shows that the call is running; of watch alone

	mu sync.Mutex
	// step and message are the last progress that the plugin has reported; empty once that is written.
	step, message string
	// reported is the progress that was reported to telemetry last, and reportedAt when.
	reported   telemetry.Progress
	reportedAt time.Time
}

func newObserver(j *job) *observer {
	record := func(eventType, reason, message string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.r.recorder.Record(j.item, eventType, reason, message)
	}
	return &observer{job: j, events: &itemevents.Call{
		Plugin: j.r.name, Record: record, Now: j.r.clock.Now, Log: j.log,
	}}
}

// Event records an event of the deploy item.
func (o *observer) Event(warning bool, reason, message string) {
	o.events.Add(warning, reason, message)
}

var _ plugin.Observer = (*observer)(nil)

// watch writes the plugin's progress, and cancels the call when the item asks for something else or its lock is lost.
// A signal says that the item may have changed. It returns when ctx ends.
func (o *observer) watch(ctx context.Context, signals <-chan struct{}, cancel context.CancelCauseFunc) {
	ticker := o.job.r.clock.NewTicker(stepInterval)
	defer ticker.Stop()
	check := true // the item may have changed before the subscription
	for {
		if check {
			err := o.check(ctx)
			if errors.Is(err, itemclient.ErrOutdated) {
				cancel(plugin.ErrInterrupted)
				return
			}
			check = err != nil // an API error: try again after the next tick
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
			o.events.Flush()
			o.writeStep(ctx)
		}
	}
}

// check returns errOutdated if somebody else has changed the item so that the call is not wanted any more. The item is
// read only if its metadata in the cache has changed.
func (o *observer) check(ctx context.Context) error {
	j := o.job
	j.mu.Lock()
	defer j.mu.Unlock()
	cached := &v1alpha1.DeployItem{}
	err := j.r.cache.Get(ctx, keyOf(j.item), cached, client.UnsafeDisableDeepCopy)
	unchanged := err == nil && cached.UID == j.item.UID && !contract.Newer(cached.ResourceVersion, j.item.ResourceVersion)
	if unchanged || ctx.Err() != nil { // ctx ends with the call
		return nil
	}
	return j.readAgain(ctx, j.stillWanted)
}

// Progress is written to the item with the next tick. Each step is reported to telemetry; changes within a step are
// reported once in a stepInterval.
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

// writeStep shows in the status that the call is running, and the plugin's progress. An error is only logged: more
// progress follows.
func (o *observer) writeStep(ctx context.Context) {
	step, message := o.takeStep()
	if message == "" && o.shown {
		return
	}
	j := o.job
	err := j.writeStatus(ctx, func(item *v1alpha1.DeployItem) {
		contract.Progress(item)
		if message != "" {
			contract.Step(item, step, message, j.r.clock.Now())
		}
	})
	if o.shown = o.shown || err == nil; err != nil {
		j.log.Debug("progress could not be written", "error", err.Error())
	}
}

// SaveProviderStatus writes the provider status, and in the same write that the call is running, and the pick-up if it is
// pending.
func (o *observer) SaveProviderStatus(ctx context.Context, document []byte) error {
	if len(document) == 0 {
		document = nil // the job is to be picked up, and nothing else
	} else if err := checkProviderStatus(document); err != nil {
		return err
	}
	step, message := o.takeStep()
	return o.job.save(ctx, func(item *v1alpha1.DeployItem) {
		contract.Progress(item)
		if message != "" {
			contract.Step(item, step, message, o.job.r.clock.Now())
		}
		withProviderStatus(document)(item)
	})
}

// checkProviderStatus validates a provider status: the API server takes only an object with a type.
func checkProviderStatus(document []byte) error {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(document, &meta); err != nil || meta.APIVersion == "" || meta.Kind == "" {
		return errors.New("provider status: expected a JSON object with apiVersion and kind")
	}
	return nil
}

// checkExports validates exports.
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

// ResolveTarget resolves a Target of the item's namespace by the rules for the item's own.
func (o *observer) ResolveTarget(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	resolved, err := o.job.r.targets.Named(ctx, o.job.snapshot().Namespace, name)
	if err == nil {
		return resolved, nil
	}
	e := asError(operationResolveOther, err)
	if e.Terminal && len(e.Codes) == 0 {
		// In the protocol only a code can end a job.
		e.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}
	}
	return nil, plugin.Error{Codes: e.Codes, Operation: operationResolveOther, Reason: e.Reason, Message: e.Message}
}

// ResolveRegistryCredentials reads a Secret by the rules for those of the item's Context. An error is worth a retry.
func (o *observer) ResolveRegistryCredentials(
	ctx context.Context, secret types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	return lscontext.NamedCredentials(ctx, o.job.r.targets, o.job.snapshot().Namespace, secret)
}
