package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/text"
)

// watches has the informers of the host's cache, each with the last error of its list or watch.
type watches struct {
	mu  sync.Mutex
	all map[toolscache.SharedIndexInformer]error
}

// newInformer makes an informer of the cache.
type newInformer = func(
	toolscache.ListerWatcher, runtime.Object, time.Duration, toolscache.Indexers,
) toolscache.SharedIndexInformer

func newWatches() *watches { return &watches{all: map[toolscache.SharedIndexInformer]error{}} }

// following returns a function that makes informers, and follows their errors.
func (w *watches) following(informerFor newInformer) newInformer {
	return func(
		lw toolscache.ListerWatcher, example runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		informer := informerFor(lw, example, resync, indexers)
		_ = informer.SetWatchErrorHandlerWithContext( // fails for a started informer only
			func(ctx context.Context, r *toolscache.Reflector, err error) {
				w.mu.Lock()
				w.all[informer] = err
				w.mu.Unlock()
				toolscache.DefaultWatchErrorHandler(ctx, r, err)
			})
		return informer
	}
}

// problems returns why informers have listed nothing so far, each with what grants a missing right, as the end of a
// sentence; "" if no list has failed.
func (w *watches) problems() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	for informer, err := range w.all {
		if informer.HasSynced() {
			continue
		}
		problem := err.Error()
		if status := apierrors.APIStatus(nil); errors.As(err, &status) { // without the type in Go
			problem = status.Status().Message
		}
		if grants := text.Grants(problem); grants != "" {
			problem += "; grant " + grants + ", and what else host-rights.yaml has"
		}
		found = append(found, problem)
	}
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return ": " + strings.Join(found, "; ")
}

const (
	// unreadyGrace is the time of a start without an Event.
	unreadyGrace = 20 * time.Second
	// unreadyPause is the least time between two Events with different reasons, unreadyRepeat that with the same reason.
	unreadyPause  = time.Minute
	unreadyRepeat = 15 * time.Minute
	// unreadyPoll is the interval of the checks.
	unreadyPoll = 5 * time.Second
)

// unreadiness decides about Events of a host that is not ready.
type unreadiness struct {
	since, told time.Time
	reason      string
}

// due reports whether an Event has to say now why the host is not ready; the reason is empty if it is ready.
func (u *unreadiness) due(reason string, now time.Time) bool {
	if reason == "" {
		u.since = time.Time{}
		return false
	}
	if u.since.IsZero() {
		u.since = now
	}
	pause := unreadyPause
	if reason == u.reason {
		pause = unreadyRepeat
	}
	if now.Sub(u.since) < unreadyGrace || now.Sub(u.told) < pause {
		return false
	}
	u.told, u.reason = now, reason
	return true
}

// podEvents writes Events of the host's own Pod.
type podEvents struct {
	client client.Client
	self   pod
	log    *slog.Logger
}

// reasonNotReady is the reason of the Event of a Pod whose host is not ready.
const reasonNotReady = "NotReady"

// run has Events say why the host is not ready, until ctx ends. The kubelet's Events have only the code of /readyz.
func (p podEvents) run(ctx context.Context, ready func() error) {
	if !p.self.known() {
		return
	}
	state := unreadiness{}
	ticker := time.NewTicker(unreadyPoll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			reason := ""
			if err := ready(); err != nil {
				reason = err.Error()
			}
			if !state.due(reason, now) {
				continue
			}
			p.tell(ctx, reasonNotReady, reason)
		}
	}
}

// tell records an Event of the host's Pod, if it has one. An error goes to the log.
func (p podEvents) tell(ctx context.Context, reason, message string) {
	if !p.self.known() {
		return
	}
	if err := p.warn(ctx, reason, message, time.Now()); err != nil {
		p.log.Warn("cannot record an event of the own pod", "message", message, "error", err.Error())
	}
}

// maxNote bounds the note of an Event; the API server takes no more.
const maxNote = 1024

// warn records an Event.
func (p podEvents) warn(ctx context.Context, reason, note string, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, unreadyPoll)
	defer cancel()
	regarding := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.self.namespace, Name: p.self.name}
	self := &metav1.PartialObjectMetadata{}
	self.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	// Without the UID `kubectl events` shows the Event, and `kubectl describe` does not.
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: p.self.namespace, Name: p.self.name}, self); err == nil {
		regarding.UID = self.UID
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.self.namespace, GenerateName: p.self.name + "-"},
		EventTime:  metav1.NewMicroTime(now), ReportingController: "pergola", ReportingInstance: p.self.name,
		Type: corev1.EventTypeWarning, Reason: reason, Action: "CheckReadiness",
		Regarding: regarding, Note: text.Cut(note, maxNote),
	}
	if err := p.client.Create(ctx, event); err != nil {
		return fmt.Errorf("create an Event: %w", err)
	}
	return nil
}
