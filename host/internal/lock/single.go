package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/hostlease"
)

// singleNamespace returns the namespace for the Lease of a host without locks: all hosts with the same items must find
// it, in whatever namespace they run. namespaces are the only ones of the host; none for all.
func singleNamespace(namespaces []string) string {
	if len(namespaces) == 0 {
		return metav1.NamespaceSystem
	}
	return slices.Min(namespaces)
}

// ErrTakenOver reports that another host has the Lease by now. The host must end.
var ErrTakenOver = errors.New("another standalone host without locks has taken over this cluster, because this host " +
	"did not renew its Lease in time")

// Single keeps a standalone host without locks from work beside another one. It has a Lease for that. A host that
// cannot renew it goes on: only another host with the Lease is a danger.
type Single struct {
	client   client.Client
	duration time.Duration
	log      *slog.Logger
	clock    clock.WithTicker
	// lease is the name of the Lease.
	lease client.ObjectKey
	// group is the value of hostlease.Label.
	group string
	// namespaces are the only ones of the host; none for all.
	namespaces []string
	// process is the holder identity of this process.
	process string

	mu sync.Mutex
	// reason is why the host has to wait; nil while it holds the Lease.
	reason error
	// version of the Lease of another host was seen first at since.
	version string
	since   time.Time
	onHeld  []func()
}

// NewSingle returns a Single before its Run. direct has no cache. namespaces are the only ones of the host; none for
// all. group is any string; hosts of other groups do not wait for each other. duration is the time from the last
// renewal seen to the takeover of another host's Lease.
func NewSingle(
	direct client.Client, namespaces []string, group string, duration time.Duration, log *slog.Logger,
) *Single {
	machine, _ := os.Hostname() // it is for readers only
	return &Single{
		client: direct, duration: duration, log: log, clock: clock.RealClock{},
		lease: client.ObjectKey{
			Namespace: singleNamespace(namespaces), Name: "pergola-standalone-" + groupLabel(group),
		},
		group: groupLabel(group), namespaces: namespaces,
		process: machine + "/" + rand.Text()[:8],
		reason:  errors.New("the host has not read the Lease of standalone hosts yet"),
	}
}

// OnHeld has f called when the host gets the Lease. It must be set before Run, and must not block.
func (s *Single) OnHeld(f func()) { s.onHeld = append(s.onHeld, f) }

// Wait is the reason why the host must not work; nil while it holds the Lease.
func (s *Single) Wait() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// Run gets the Lease, renews it until ctx ends, and releases it. It returns ErrTakenOver when another host has it.
func (s *Single) Run(ctx context.Context) error {
	ticker := s.clock.NewTicker(s.duration / 3)
	defer ticker.Stop()
	for {
		switch err := s.step(ctx); {
		case isHopeless(err):
			// It would keep hosts with few rights from any work.
			s.log.Warn("cannot notice another standalone host without locks; a host without locks needs the rights get, "+
				"create and update for leases in the namespace "+s.lease.Namespace, "error", err.Error())
			s.hold()
			<-ctx.Done()
			return nil
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return s.release(ctx)
		case <-ticker.C():
		}
	}
}

// step takes or renews the Lease once. The error ends Run.
func (s *Single) step(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, s.duration/3)
	defer cancel()
	err, was := s.try(attempt), s.Wait()
	switch {
	case ctx.Err() != nil:
		return nil
	case was == nil && errors.Is(err, errOther):
		s.wait(err)
		return ErrTakenOver
	case was == nil && err != nil:
		s.log.Warn("cannot renew the Lease of standalone hosts; trying again", "error", err.Error())
	case was == nil:
	case err == nil:
		s.hold()
	case isHopeless(err):
		return err
	default:
		if err.Error() != was.Error() {
			s.log.Warn("the host waits", "reason", err.Error())
		}
		s.wait(err)
	}
	return nil
}

// isHopeless reports whether an error is no matter of time: a missing right, kind or namespace.
func isHopeless(err error) bool {
	status := apierrors.APIStatus(nil)
	missing := errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
	return apierrors.IsForbidden(err) || meta.IsNoMatchError(err) || missing && apierrors.IsNotFound(err)
}

// wait notes why the host must not work.
func (s *Single) wait(reason error) {
	s.mu.Lock()
	s.reason = reason
	s.mu.Unlock()
}

// hold notes that the host may work.
func (s *Single) hold() {
	s.mu.Lock()
	s.reason = nil
	s.mu.Unlock()
	for _, f := range s.onHeld {
		f()
	}
}

// errOther is the class of errors about a living other holder.
var errOther = errors.New("another standalone host without locks works on this cluster")

// try takes or renews the Lease. The error is errOther, or that of the API server.
func (s *Single) try(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.lease.Namespace, Name: s.lease.Name}}
	err := s.client.Get(ctx, s.lease, lease)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		s.version = "" // the other host could not renew it either
		return fmt.Errorf("read the Lease %s of standalone hosts without locks: %w", s.lease, err)
	}
	now := s.clock.Now()
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" && holder != s.process {
		if s.version != lease.ResourceVersion {
			s.version, s.since = lease.ResourceVersion, now
		}
		if left := s.since.Add(s.duration).Sub(now); left > 0 {
			return fmt.Errorf("%w, %s, by the Lease %s; stop one of them, or give both locks (several replicas in Pods, "+
				"locking on)", errOther, holder, s.lease)
		}
	}
	metav1.SetMetaDataLabel(&lease.ObjectMeta, hostlease.Label, s.group)
	hostlease.NoteNamespaces(lease, s.namespaces)
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity:       &s.process,
		LeaseDurationSeconds: ptr.To(int32(s.duration.Seconds())),
		RenewTime:            &metav1.MicroTime{Time: now},
	}
	if missing {
		err = s.client.Create(ctx, lease)
	} else {
		err = s.client.Update(ctx, lease) // on condition of its version
	}
	if err != nil {
		return fmt.Errorf("write the Lease %s of standalone hosts without locks: %w", s.lease, err)
	}
	return nil
}

// release lets another host begin at once.
func (s *Single) release(ctx context.Context) error {
	if s.Wait() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := s.client.Get(ctx, s.lease, lease)
	if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == s.process {
		lease.Spec.HolderIdentity = nil
		err = s.client.Update(ctx, lease)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		s.log.Warn("the Lease of standalone hosts was not released; another host waits until it expires",
			"error", err.Error())
	}
	return nil
}
