package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// observer sees all deploy items, as anybody may. While the API server is away it misses jobs.
type observer struct {
	cancel context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	items   map[string]*observed
	again   []string // jobs that were finished twice, or begun anew after their end
	changed chan struct{}
}

// observed is what was seen of one item.
type observed struct {
	jobs   map[string]v1alpha1.DeployItemPhase // that have ended, with their phases
	latest *v1alpha1.DeployItem
}

// observe begins to see. The observer must be stopped.
func observe(ctx context.Context, config *rest.Config) (*observer, error) {
	scheme, err := testenv.Scheme()
	if err != nil {
		return nil, err
	}
	c, err := cache.New(config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	informer, err := c.GetInformer(ctx, &v1alpha1.DeployItem{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	o := &observer{ended: make(chan error, 1), items: map[string]*observed{}, changed: make(chan struct{}, 1)}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { o.see(object) },
		UpdateFunc: func(_, object any) { o.see(object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { o.ended <- c.Start(ctx) }()
	return o, nil
}

// stop returns when nothing is seen any more.
func (o *observer) stop() error {
	o.cancel()
	if err := <-o.ended; err != nil {
		return fmt.Errorf("watch deploy items: %w", err)
	}
	return nil
}

func (o *observer) see(object any) {
	item, ok := object.(*v1alpha1.DeployItem)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := o.items[item.Name]
	if seen == nil {
		seen = &observed{jobs: map[string]v1alpha1.DeployItemPhase{}}
		o.items[item.Name] = seen
	}
	seen.latest = item
	status := &item.Status
	phase, ended := seen.jobs[status.JobID]
	switch {
	case status.JobID == "":
	case ended && (status.JobID != status.JobIDFinished || status.Phase != phase):
		o.again = append(o.again, fmt.Sprintf("%s: job %s has ended as %s and is now %s", item.Name, status.JobID, phase, status.Phase))
	case status.JobID == status.JobIDFinished:
		seen.jobs[status.JobID] = status.Phase
	}
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

// wait waits until so many items have succeeded in a job that was begun after a time.
func (o *observer) wait(ctx context.Context, items int, after time.Time) error {
	for {
		missing := o.missing(items, after)
		if missing == "" {
			return nil
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			return fmt.Errorf("wait until all items have succeeded: %w: %s", context.Cause(ctx), missing)
		}
	}
}

// missing says which items have not succeeded in a job that was begun after a time; empty if all have.
func (o *observer) missing(items int, after time.Time) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	missing, example := items, "no item is there"
	for name, seen := range o.items {
		status := &seen.latest.Status
		began := status.LastReconcileTime
		if status.Phase == v1alpha1.DeployItemPhaseSucceeded && status.JobID == status.JobIDFinished && began != nil && !began.Time.Before(after.Truncate(time.Second)) {
			missing--
			continue
		}
		example = fmt.Sprintf("such as %s: phase %q, jobID %q, jobIDFinished %q, begun at %v", name, status.Phase, status.JobID, status.JobIDFinished, began)
	}
	if missing == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d have not, %s", missing, items, example)
}

// tally counts the jobs that were seen to end, by their phases.
func (o *observer) tally() (phases map[v1alpha1.DeployItemPhase]int, again []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	phases = map[v1alpha1.DeployItemPhase]int{}
	for _, seen := range o.items {
		for _, phase := range seen.jobs {
			phases[phase]++
		}
	}
	return phases, o.again
}
