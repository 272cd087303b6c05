package job

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/lscontext"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/tenure"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// stepInterval is the least pause between two writes of a plugin's progress.
const stepInterval = time.Second

// watched does a call while the item is watched. When the item asks for something else, such as another job, a
// deletion, an abort or an interruption, or when its lock is lost, the call is cancelled and the error is
// itemclient.ErrOutdated.
func (p callPhase) watched(ctx context.Context, call func(context.Context, *observer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watching, endWatch := context.WithCancel(ctx)
	o := p.newObserver(func(progress telemetry.Progress) { telemetry.Report(ctx, progress) })
	signals, unsubscribe := p.Changes.Subscribe(p.key)
	defer unsubscribe()
	var watch sync.WaitGroup
	watch.Go(func() { o.watch(watching, signals, cancel) })
	err := call(ctx, o)
	endWatch()
	watch.Wait()
	o.events.End()
	p.called.told = o.events.Normal()
	p.called.step, p.called.message, p.called.refused = o.left()
	if !errors.Is(context.Cause(ctx), plugin.ErrInterrupted) {
		return err
	}
	why := "the deploy item asks for something else, or its job was ended"
	if p.tenure.IsLost() {
		why = "its lock was lost"
	}
	p.log.Info("cancelled the plugin's call", "why", why)
	return itemclient.ErrOutdated
}

// observer gets the reports of a plugin during a call.
type observer struct {
	*work
	events *itemevents.Call
	report func(telemetry.Progress)
	// shown: the phase shows that the call is running. It belongs to watch.
	shown bool

	mu sync.Mutex
	// progress is the last one of the plugin; empty once it is written.
	progress telemetry.Progress
	// reported is the last progress reported to telemetry, at reportedAt.
	reported   telemetry.Progress
	reportedAt time.Time
	// refused is an error of the API server about a provider status to be saved.
	refused *itemclient.RefusedError
}

var _ plugin.Observer = (*observer)(nil)

func (p callPhase) newObserver(report func(telemetry.Progress)) *observer {
	return &observer{work: p.work, report: report, events: &itemevents.Call{
		Plugin: p.Plugin.Name(), Record: p.event, Now: p.Clock.Now, Log: p.log,
	}}
}

// watch writes the plugin's progress, and cancels the call when the item asks for something else or its lock is lost.
// A signal says that the item may have changed. It returns when ctx ends.
func (o *observer) watch(ctx context.Context, signals <-chan struct{}, cancel context.CancelCauseFunc) {
	ticker := o.Clock.NewTicker(stepInterval)
	defer ticker.Stop()
	check := true // the item may have changed before the subscription
	for {
		if check {
			err := o.tenure.Check(ctx, o.Changes.IsCurrent)
			if errors.Is(err, itemclient.ErrOutdated) {
				cancel(plugin.ErrInterrupted)
				return
			}
			check = err != nil // an API error: try again after the next tick
		}
		select {
		case <-ctx.Done():
			return
		case <-o.tenure.Lock.Lost():
			cancel(fmt.Errorf("%w: %w", plugin.ErrInterrupted, lock.ErrLost))
			return
		case <-signals:
			check = true
		case <-ticker.C():
			o.events.Flush()
			o.writeProgress(ctx)
		}
	}
}

// Event records an event of the item.
func (o *observer) Event(warning bool, reason, message string) {
	o.events.Add(warning, reason, message)
}

// Progress is written to the item with the next tick. Each step is reported to telemetry; changes within a step are
// reported once in a stepInterval.
func (o *observer) Progress(step, message string) {
	o.log.Debug("plugin reports progress", "step", step, "message", message)
	o.mu.Lock()
	defer o.mu.Unlock()
	now, progress := o.Clock.Now(), telemetry.Progress{Step: step, Text: message}
	o.progress = progress
	if progress.Step != o.reported.Step || progress != o.reported && now.Sub(o.reportedAt) >= stepInterval {
		o.reported, o.reportedAt = progress, now
		o.report(progress)
	}
}

func (o *observer) takeProgress() telemetry.Progress {
	o.mu.Lock()
	defer o.mu.Unlock()
	progress := o.progress
	o.progress = telemetry.Progress{}
	return progress
}

// left returns the progress that is not written yet, and the error about a provider status.
func (o *observer) left() (step, message string, refused *itemclient.RefusedError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.progress.Step, o.progress.Text, o.refused
}

// show returns the change of the status that shows the running call and its progress.
func (o *observer) show(progress telemetry.Progress) tenure.Change {
	return func(item *v1alpha1.DeployItem) {
		contract.Progress(item)
		if progress.Text != "" {
			contract.Step(item, progress.Step, progress.Text, o.Clock.Now())
		}
	}
}

// writeProgress shows in the status that the call is running, and its progress. An error is only logged: more progress
// follows.
func (o *observer) writeProgress(ctx context.Context) {
	progress := o.takeProgress()
	if progress.Text == "" && o.shown {
		return
	}
	err := o.tenure.Write(ctx, o.show(progress))
	if o.shown = o.shown || err == nil; err != nil {
		o.log.Debug("progress could not be written", "error", err.Error())
	}
}

// SaveProviderStatus writes the provider status, the progress, and the pick-up if it is pending, in one write.
func (o *observer) SaveProviderStatus(ctx context.Context, document []byte) error {
	if len(document) == 0 {
		document = nil // the job is to be picked up, and nothing else
	} else if err := hostside.CheckProviderStatus(document); err != nil {
		return err
	}
	show := o.show(o.takeProgress())
	err := o.tenure.Save(ctx, func(item *v1alpha1.DeployItem) {
		show(item)
		move.Save(o.moving, document)(item)
	})
	if refused, ok := errors.AsType[*itemclient.RefusedError](err); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.refused = refused
	}
	return err
}

// ResolveTarget resolves a Target of the item's namespace by the rules for the item's own.
func (o *observer) ResolveTarget(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	resolved, err := o.Targets.Named(ctx, o.key.Namespace, name)
	if err == nil {
		return resolved, nil
	}
	return nil, joberror.ForPlugin(joberror.FromOther(err))
}

// ResolveRegistryCredentials reads a Secret by the rules for those of the item's Context. An error is worth a retry.
func (o *observer) ResolveRegistryCredentials(
	ctx context.Context, secret types.NamespacedName,
) (*sdk.RegistryCredentials, error) {
	return lscontext.NamedCredentials(ctx, o.Targets, o.key.Namespace, secret)
}
