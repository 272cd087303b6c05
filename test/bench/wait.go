package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// carryOut sets jobs for items, waits until they have succeeded, and returns how long that took. Nobody asks for what a
// watch does not show.
func (f *fleet) carryOut(ctx context.Context, items ...*v1alpha1.DeployItem) (took time.Duration, err error) {
	now := &v1alpha1.DeployItemList{}
	if err := f.admin.List(ctx, now, client.InNamespace(f.namespace), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("list items: %w", err)
	}
	last := map[string]string{}
	for _, item := range items {
		last[item.Name] = item.Status.JobID
	}
	group, ctx := errgroup.WithContext(ctx)
	events, err := f.watchItems(ctx, now.ResourceVersion)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	group.Go(func() error {
		return forEach(ctx, items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
			_, err := testenv.SetJob(ctx, f.admin, item)
			return err
		})
	})
	var finished map[string]*v1alpha1.DeployItem
	group.Go(func() (err error) {
		finished, err = f.awaitFinished(ctx, events, now.ResourceVersion, last)
		took = time.Since(began)
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	for _, item := range items {
		*item = *finished[item.Name]
	}
	return took, nil
}

// awaitFinished returns items once each of them has finished another job than its last one.
func (f *fleet) awaitFinished(
	ctx context.Context, events watch.Interface, seen string, last map[string]string,
) (finished map[string]*v1alpha1.DeployItem, err error) {
	defer func() { events.Stop() }()
	finished = map[string]*v1alpha1.DeployItem{}
	for len(finished) < len(last) {
		event, open := <-events.ResultChan()
		if !open { // the API server closes a watch that it finds slow
			again, err := f.watchItems(ctx, seen)
			if err != nil {
				return nil, err
			}
			events = again
			continue
		}
		item, ok := event.Object.(*v1alpha1.DeployItem)
		if !ok {
			return nil, fmt.Errorf("watch items: unexpected event %v", event)
		}
		seen = item.ResourceVersion
		before, wanted := last[item.Name]
		switch s := item.Status; {
		case !wanted:
		case event.Type == watch.Deleted: // which was the job
			finished[item.Name] = item
		case s.JobID != s.JobIDFinished || s.JobID == before:
		case s.Phase != v1alpha1.DeployItemPhaseSucceeded:
			return nil, fmt.Errorf("the job of item %s has not succeeded: %+v", item.Name, s.LastError)
		default:
			finished[item.Name] = item
		}
	}
	return finished, nil
}

func (f *fleet) watchItems(ctx context.Context, since string) (watch.Interface, error) {
	events, err := f.admin.Watch(ctx, &v1alpha1.DeployItemList{}, client.InNamespace(f.namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}})
	if err != nil {
		return nil, fmt.Errorf("watch items: %w", err)
	}
	return events, nil
}

// waitQuiet waits until the hosts send no requests since a mark any more, but for Leases.
func (b *bench) waitQuiet(ctx context.Context, mark int64) error {
	for last := -1; ; {
		counts, err := countRequests(b, mark, func(r request) bool {
			return r.column() != "" && r.ObjectRef.Resource != "leases"
		})
		if err != nil || sum(counts) == last {
			return err
		}
		last = sum(counts)
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
