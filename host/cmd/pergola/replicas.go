package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// The environment variables in which a pod is told who it is.
const (
	podNameVariable      = "MY_POD_NAME"
	podNamespaceVariable = "MY_POD_NAMESPACE"
)

// joinTimeout bounds how long it takes to find the other replicas.
const joinTimeout = 30 * time.Second

// pod is the pod that the host runs in. Its fields are empty outside of one.
type pod struct {
	name, namespace string
}

func ownPod() pod {
	return pod{name: os.Getenv(podNameVariable), namespace: os.Getenv(podNamespaceVariable)}
}

// known reports whether the pod knows who it is.
func (p pod) known() bool { return p.name != "" && p.namespace != "" }

// forgotten reports whether the host seems to run in a pod that was not told all that locks need.
func (p pod) forgotten() bool {
	return !p.known() && (p.name != "" || p.namespace != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != "")
}

// locks reports whether the host is to work under locks.
func (p pod) locks(locking config.Locking) (bool, error) {
	known := p.known()
	if locking == config.LockingOn && !known {
		return false, fmt.Errorf("locking is on, but the environment does not have both %s and %s: "+
			"set them by the downward API, or set locking to off for a host without replicas", podNameVariable, podNamespaceVariable)
	}
	return known && locking != config.LockingOff, nil
}

// replicas are the host's replicas and what is done because there may be several. The zero value is that of a host that
// is alone.
type replicas struct {
	*lock.Replicas

	locker *lock.Locker
	log    *slog.Logger
}

// joinReplicas makes the host one of the replicas of its installation. It blocks until it knows the others.
func joinReplicas(
	ctx context.Context, podCluster *rest.Config, self pod, settings *config.HostConfiguration, standalone bool,
	log *slog.Logger,
) (*replicas, error) {
	on, err := self.locks(settings.Locking)
	if err != nil || !on {
		if settings.Locking == config.LockingAuto && self.forgotten() {
			log.Warn("works without locks, which is right for one replica only: the environment does not have both " +
				podNameVariable + " and " + podNamespaceVariable + "; set them by the downward API, or set locking to off")
		}
		return &replicas{log: log}, err
	}
	group, err := groupOf(settings, standalone)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	joined, err := lock.Join(ctx, podCluster, lock.ReplicaOptions{
		Namespace: self.namespace, PodName: self.name, Group: group,
		LeaseDuration: settings.Timeouts.Lease.Duration, Log: log,
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("find the other replicas: the host needs to get, list and watch pods, "+
			"and to get, list, watch, create and update leases in namespace %q; "+
			"set locking to off for a host without replicas: %w", self.namespace, err)
	}
	if err != nil {
		return nil, err
	}
	return &replicas{Replicas: joined, log: log}, nil
}

// groupOf names the replicas that work on the same items in the same way.
func groupOf(settings *config.HostConfiguration, standalone bool) (string, error) {
	group, err := json.Marshal(map[string]any{
		"lockPrefix": settings.LockPrefix, "targetSelectors": settings.TargetSelectors, "standalone": standalone,
	})
	if err != nil {
		return "", fmt.Errorf("name the group of replicas: %w", err)
	}
	return string(group), nil
}

// run keeps the replica alive in the eyes of the others until ctx ends. It returns at once when it was replaced.
func (r *replicas) run(ctx context.Context) error {
	if r.alone() {
		<-ctx.Done()
		return nil
	}
	return r.Run(ctx)
}

// abandon ends a replica that was never run.
func (r *replicas) abandon(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return r.run(ctx)
}

// alone reports whether the host works without locks.
func (r *replicas) alone() bool { return r.Replicas == nil }

// elected reports whether this replica does what is to be done once.
func (r *replicas) elected() bool { return r.alone() || r.Elected() }

// electedFor reports whether this replica does what is to be done once for the items of a plugin.
func (r *replicas) electedFor(plugin string) bool { return r.alone() || r.ElectedFor(plugin) }

// servers is how many replicas have a plugin that this one has, this one included.
func (r *replicas) servers(plugin string) int {
	if r.alone() {
		return 1
	}
	return max(1, r.Servers(plugin)) // the own one is told to the others in a moment
}

// ready is why the replica cannot work; nil if it can.
func (r *replicas) ready() error {
	if !r.alone() && !r.Valid() {
		return errors.New("the replica's Lease cannot be renewed; its locks count as lost")
	}
	return nil
}

// lock makes the locks under which the controller works, unless this replica is alone.
func (r *replicas) lock(mgr manager.Manager, listener lock.Listener, prefix string) error {
	if r.alone() {
		return nil
	}
	lockMetrics := lock.NewMetrics()
	r.locker = lock.New(lock.Options{
		API: uncached{mgr.GetClient(), mgr.GetAPIReader()}, Prefix: prefix, Replicas: r.Replicas,
		Listener: listener, Metrics: lockMetrics, Log: r.log,
	})
	r.Subscribe(r.locker.ReplicasChanged)
	if err := lockMetrics.Register(metrics.Registry); err != nil {
		return fmt.Errorf("register lock metrics: %w", err)
	}
	cleaner := &lock.Cleaner{
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(), NewMetadata: controller.NewMetadata,
		Elected: r.elected, Log: r.log,
	}
	return errors.Join(mgr.Add(r.locker), mgr.Add(cleaner), mgr.Add(everywhere(r.leave)))
}

// uncached writes with one client and reads with another.
type uncached struct {
	client.Writer
	client.Reader
}

// onElection sets a function that is called when this replica may have been elected, or may not be any more. It must
// not block.
func (r *replicas) onElection(changed func()) {
	if !r.alone() {
		r.Subscribe(changed)
	}
}

// leave tells the others when the host stops that this replica takes no new work.
func (r *replicas) leave(ctx context.Context) error {
	<-ctx.Done()
	r.Leave()
	return nil
}

// everywhere is a Runnable that runs in every replica.
type everywhere func(ctx context.Context) error

// Start implements manager.Runnable.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// measureAutoscalers has the figures of the HorizontalPodAutoscalers in the namespace of the host's pods logged and
// measured.
func (r *replicas) measureAutoscalers(mgr manager.Manager, podCluster *rest.Config, self pod) error {
	if self.namespace == "" {
		return nil
	}
	reader, err := client.New(podCluster, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return fmt.Errorf("connect to the cluster of the pods: %w", err)
	}
	statistics := telemetry.NewHPAStatistics(
		telemetry.HPAOptions{Reader: reader, Namespace: self.namespace, Elected: r.elected, Log: r.log},
	)
	if err := metrics.Registry.Register(statistics.Collector()); err != nil {
		return fmt.Errorf("register metrics of HorizontalPodAutoscalers: %w", err)
	}
	return mgr.Add(statistics)
}
