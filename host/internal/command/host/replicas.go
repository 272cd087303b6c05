package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/pergola-deploy/pergola/host/internal/command/settings"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// podNamespaceVariable is the environment variable with the namespace of the host's pod.
const podNamespaceVariable = "MY_POD_NAMESPACE"

// joinTimeout bounds the search for other replicas.
const joinTimeout = 30 * time.Second

// pod is the pod of the host. Its fields are empty outside of a pod.
type pod struct {
	name, namespace string
}

func ownPod() pod {
	return pod{name: os.Getenv(settings.PodNameVariable), namespace: os.Getenv(podNamespaceVariable)}
}

// known reports whether name and namespace are set.
func (p pod) known() bool { return p.name != "" && p.namespace != "" }

// forgotten reports whether the host seems to run in a pod without the variables for locks.
func (p pod) forgotten() bool {
	return !p.known() && (p.name != "" || p.namespace != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != "")
}

// locks reports whether the host is to work under locks.
func (p pod) locks(locking config.Locking) (bool, error) {
	known := p.known()
	if locking == config.LockingOn && !known {
		return false, fmt.Errorf("locking is on, but the environment does not have both %s and %s: "+
			"set them by the downward API, or set locking to off for a host without replicas",
			settings.PodNameVariable, podNamespaceVariable)
	}
	return known && locking != config.LockingOff, nil
}

// replicas are the replicas of the host and their locks. The zero value is a single replica.
type replicas struct {
	*lock.Replicas

	// single keeps a standalone host without locks from work beside another one; nil for any other host.
	single *lock.Single
	locker *lock.Locker
	log    *slog.Logger
}

// joinReplicas joins the replicas of the installation, and blocks until all others are known.
func joinReplicas(
	ctx context.Context, podCluster *rest.Config, self pod, configured *config.HostConfiguration, standalone bool,
	log *slog.Logger,
) (*replicas, error) {
	on, err := self.locks(configured.Locking)
	if err != nil || !on {
		if configured.Locking == config.LockingAuto && self.forgotten() {
			log.Warn("works without locks, which is right for one replica only: the environment does not have both " +
				settings.PodNameVariable + " and " + podNamespaceVariable + "; set them by the downward API, or set locking to off")
		}
		return &replicas{log: log}, err
	}
	group, err := groupOf(configured, standalone)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	joined, err := lock.Join(ctx, podCluster, lock.ReplicaOptions{
		Namespace: self.namespace, PodName: self.name, Namespaces: configured.Namespaces, Group: group,
		LeaseDuration: configured.Timeouts.Lease.Duration, Log: log,
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

// groupOf names the replicas with the same items and the same behaviour.
func groupOf(configured *config.HostConfiguration, standalone bool) (string, error) {
	same := map[string]any{
		"lockPrefix": configured.LockPrefix, "targetSelectors": configured.TargetSelectors, "standalone": standalone,
	}
	if len(configured.Namespaces) > 0 { // replicas of before this field stay in their group
		same["namespaces"] = slices.Sorted(slices.Values(configured.Namespaces))
	}
	group, err := json.Marshal(same)
	if err != nil {
		return "", fmt.Errorf("name the group of replicas: %w", err)
	}
	return string(group), nil
}

// run renews the Lease of the replica until ctx ends or the replica is replaced.
func (r *replicas) run(ctx context.Context) error {
	switch {
	case r.single != nil:
		return r.single.Run(ctx)
	case r.alone():
		<-ctx.Done()
		return nil
	default:
		return r.Run(ctx)
	}
}

// workAlone has a standalone host without locks wait for the end of another one. begin is closed when it may work.
func (r *replicas) workAlone(
	mgr manager.Manager, namespaces []string, group string, duration time.Duration,
) (begin <-chan struct{}, err error) {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster of the deploy items: %w", err)
	}
	held := make(chan struct{})
	r.single = lock.NewSingle(direct, namespaces, group, duration, r.log)
	r.single.OnHeld(func() { close(held) })
	return held, nil
}

// abandon ends a replica without a run.
func (r *replicas) abandon(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return r.run(ctx)
}

// alone reports whether the host works without locks.
func (r *replicas) alone() bool { return r.Replicas == nil }

// elected reports whether this replica does the work of a single replica.
func (r *replicas) elected() bool {
	if r.alone() {
		return r.mayWork() == nil
	}
	return r.Elected()
}

// mayWork is the reason why a standalone host without locks must wait; nil for any other host.
func (r *replicas) mayWork() error {
	if r.single == nil {
		return nil
	}
	return r.single.Wait()
}

// electedFor reports whether this replica does the work of a single replica for a plugin.
func (r *replicas) electedFor(plugin string) bool {
	if r.alone() {
		return r.elected()
	}
	return r.ElectedFor(plugin)
}

// servers returns the number of replicas with a plugin of this replica.
func (r *replicas) servers(plugin string) int {
	if r.alone() {
		return 1
	}
	return max(1, r.Servers(plugin)) // the own plugin may not be announced yet
}

// ready returns the reason why the replica cannot work; nil if it can.
func (r *replicas) ready() error {
	if !r.alone() && !r.Valid() {
		return errors.New("the replica's Lease cannot be renewed; its locks count as lost")
	}
	return r.mayWork()
}

// lock creates the locker of the controller, unless this replica is alone.
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
		Cache: mgr.GetCache(), Client: mgr.GetClient(), Live: mgr.GetAPIReader(),
		Elected: r.elected, Log: r.log,
	}
	return errors.Join(mgr.Add(r.locker), mgr.Add(cleaner), mgr.Add(everywhere(r.leave)))
}

// uncached writes with one client and reads with another.
type uncached struct {
	client.Writer
	client.Reader
}

// onElection sets a function for possible changes of elected. It must not block.
func (r *replicas) onElection(changed func()) {
	switch {
	case r.single != nil:
		r.single.OnHeld(changed)
	case !r.alone():
		r.Subscribe(changed)
	}
}

// leave announces that this replica takes no new work when the host stops.
func (r *replicas) leave(ctx context.Context) error {
	<-ctx.Done()
	r.Leave()
	return nil
}

// everywhere is a Runnable of all replicas.
type everywhere func(ctx context.Context) error

// Start implements manager.Runnable.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }

// measureAutoscalers logs and measures the HorizontalPodAutoscalers in the namespace of the host's pods.
func (r *replicas) measureAutoscalers(mgr manager.Manager, reader client.Reader, self pod) error {
	if self.namespace == "" {
		return nil
	}
	statistics := telemetry.NewHPAStatistics(
		telemetry.HPAOptions{Reader: reader, Namespace: self.namespace, Elected: r.elected, Log: r.log},
	)
	if err := metrics.Registry.Register(statistics.Collector()); err != nil {
		return fmt.Errorf("register metrics of HorizontalPodAutoscalers: %w", err)
	}
	return mgr.Add(statistics)
}
