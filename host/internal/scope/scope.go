// Package scope watches over the namespaces of a host for some namespaces only.
package scope

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// interval is the pause between two looks at the namespaces.
	interval = 30 * time.Second
	// timeout bounds the requests for one namespace.
	timeout = 10 * time.Second
)

// The reasons of events.
const (
	reasonMissing   = "NamespaceMissing"
	reasonForbidden = "NamespaceForbidden"
	// reasonTerminating is also one of plugins, for a namespace of their targets.
	reasonTerminating = "NamespaceTerminating"
)

// Options of a Watcher. All are required.
type Options struct {
	Namespaces []string
	// Live reads from the API server.
	Live client.Reader
	// Warn records an event of the host.
	Warn func(ctx context.Context, reason, message string)
	Log  *slog.Logger
}

// Watcher knows the missing and the forbidden namespaces of a host. Create it with New.
type Watcher struct {
	options Options

	mu     sync.Mutex
	states map[string]state
}

// New returns a Watcher before its Start.
func New(o Options) *Watcher { return &Watcher{options: o, states: map[string]state{}} }

// state is the state of a namespace.
type state string

const (
	// stateUnknown: the API server has not answered yet.
	stateUnknown state = ""
	stateServed  state = "served"
	// stateMissing: there is no such namespace. The host works in the others.
	stateMissing state = "missing"
	// stateForbidden: the namespace is there, or may be there, and the host may not list its items.
	stateForbidden state = "forbidden"
	// stateTerminating: the same for a namespace in deletion, which removes the host's Role before the items. The host
	// works in the others.
	stateTerminating state = "terminating"
)

// judge returns the state of a namespace by the errors of a read of it and of a list of its items. terminating reports
// whether the namespace was read and is being deleted.
func judge(before state, terminating bool, read, list error) state {
	switch {
	case apierrors.IsNotFound(read):
		return stateMissing
	case terminating && apierrors.IsForbidden(list):
		return stateTerminating
	case apierrors.IsForbidden(list):
		return stateForbidden
	case list == nil:
		return stateServed
	default:
		return before
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each replica needs its rights.
func (w *Watcher) NeedLeaderElection() bool { return false }

// Start looks at the namespaces until ctx ends. It blocks until then.
func (w *Watcher) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, namespace := range w.options.Namespaces {
			w.look(ctx, namespace)
		}
	}, interval)
	return nil
}

// Ready is the reason why the host cannot serve a namespace; nil if it serves all existing ones.
func (w *Watcher) Ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, namespace := range w.options.Namespaces {
		switch w.states[namespace] {
		case stateUnknown:
			errs = append(errs, fmt.Errorf("the namespace %q has not been looked at yet", namespace))
		case stateForbidden:
			errs = append(errs, errors.New(forbidden(namespace)))
		case stateServed, stateMissing, stateTerminating:
		}
	}
	return errors.Join(errs...)
}

// look looks at a namespace, and reports a change.
func (w *Watcher) look(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	read := w.options.Live.Get(ctx, client.ObjectKey{Name: namespace}, object)
	items := &metav1.PartialObjectMetadataList{}
	items.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DeployItemList"))
	list := w.options.Live.List(ctx, items, client.InNamespace(namespace), client.Limit(1))

	w.mu.Lock()
	before := w.states[namespace]
	next := judge(before, object.DeletionTimestamp != nil, read, list)
	w.states[namespace] = next
	w.mu.Unlock()
	if next == before {
		return
	}
	switch next {
	case stateMissing:
		w.warn(ctx, reasonMissing, missing(namespace))
	case stateForbidden:
		w.warn(ctx, reasonForbidden, forbidden(namespace))
	case stateTerminating:
		w.warn(ctx, reasonTerminating, terminating(namespace))
	case stateServed, stateUnknown:
		w.options.Log.Info("serves namespace", "namespace", namespace)
	}
}

func (w *Watcher) warn(ctx context.Context, reason, message string) {
	w.options.Log.Warn(message, "reason", reason)
	w.options.Warn(ctx, reason, message)
}

func missing(namespace string) string {
	return fmt.Sprintf("there is no namespace %q, which the host is to serve; create it with the Role of the host, or "+
		"remove it from namespaces in the configuration of the host", namespace)
}

func forbidden(namespace string) string {
	return fmt.Sprintf("the host may not list deployitems in the namespace %q, which it is to serve; bind the Role of "+
		"docs/host-rights-scoped.yaml there, or remove it from namespaces in the configuration of the host", namespace)
}

func terminating(namespace string) string {
	return fmt.Sprintf("the namespace %q is being deleted, and the host may not list its deployitems any more, whose "+
		"finalizers hold up the deletion; until it is gone, give the host the rules of the Role of "+
		"docs/host-rights-scoped.yaml by a ClusterRole and a ClusterRoleBinding", namespace)
}
