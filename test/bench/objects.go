package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/test/bench/many"
)

// measureObjects lets the manifest deployer carry out one item with many objects.
func (b *bench) measureObjects(ctx context.Context) (err error) {
	b.say("One item with %d objects of mixed kinds, some of which it defines itself", many.Objects)
	host, err := b.startDeployers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopHost(ctx, host)) }()
	for _, strategy := range []managedresource.UpdateStrategy{managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyApply} {
		if err := b.measureStrategy(ctx, strategy); err != nil {
			return fmt.Errorf("measure strategy %s: %w", strategy, err)
		}
	}
	b.say("")
	return nil
}

func (b *bench) measureStrategy(ctx context.Context, strategy managedresource.UpdateStrategy) error {
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	item, err := f.createItemOfMany(ctx, strategy)
	if err != nil {
		return err
	}
	carryOut := func() error {
		if err := f.setJob(ctx, item); err != nil {
			return err
		}
		return f.waitFinished(ctx, []*v1alpha1.DeployItem{item}, look)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"first job", carryOut},
		{"second job", carryOut},
		{"deletion", func() error {
			if err := errors.Join(f.admin.Delete(ctx, item), f.setJob(ctx, item)); err != nil {
				return fmt.Errorf("delete item: %w", err)
			}
			return f.waitGone(ctx, item)
		}},
	} {
		mark, err := os.Stat(b.controlPlane.AuditLog)
		if err != nil {
			return fmt.Errorf("find audit log: %w", err)
		}
		began := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		took := time.Since(began)
		requests, err := many.CountRequests(b.controlPlane.AuditLog, mark.Size(), "pergola-manifest")
		if err != nil {
			return err
		}
		b.say("%-8s %-10s %6.1fs  %s", strategy, step.what, took.Seconds(), requests)
	}
	return nil
}

// createItemOfMany creates an item with many objects, and a Target for it, which is this cluster.
func (f *fleet) createItemOfMany(ctx context.Context, strategy managedresource.UpdateStrategy) (*v1alpha1.DeployItem, error) {
	config, err := many.Config(f.namespace, strategy)
	if err != nil {
		return nil, err
	}
	item := f.newItem("many", v1alpha2.Type, config)
	if err := errors.Join(f.createTarget(ctx), f.admin.Create(ctx, item)); err != nil {
		return nil, fmt.Errorf("create item with many objects: %w", err)
	}
	return item, nil
}

// waitGone waits until an item is deleted.
func (f *fleet) waitGone(ctx context.Context, item *v1alpha1.DeployItem) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		err := f.admin.Get(ctx, client.ObjectKeyFromObject(item), item)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("read item: %w", err)
		case item.Status.Phase == v1alpha1.DeployItemPhaseDeleteFailed:
			return fmt.Errorf("the deletion of item %s has failed: %+v", item.Name, item.Status.LastError)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the deletion of item %s: %w", item.Name, ctx.Err())
		}
	}
}
