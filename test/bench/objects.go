package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// measureObjects lets the manifest deployer carry out one item with many objects.
func (b *bench) measureObjects(ctx context.Context) error {
	say("One item with %d objects of mixed kinds, some of which it defines itself", manyObjects)
	for _, strategy := range []managedresource.UpdateStrategy{
		managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyApply,
	} {
		if err := b.measureStrategy(ctx, strategy); err != nil {
			return fmt.Errorf("measure strategy %s: %w", strategy, err)
		}
	}
	say("")
	return nil
}

func (b *bench) measureStrategy(ctx context.Context, strategy managedresource.UpdateStrategy) (err error) {
	f, err := b.newFleet(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stop(ctx)) }()
	if _, err := f.startDeployers(ctx); err != nil {
		return err
	}
	if err := f.waitReady(ctx); err != nil {
		return err
	}
	items, err := f.createItems(ctx, 1, v1alpha2.Type, func(string) fields { return manyConfig(f.namespace, strategy) })
	if err != nil {
		return err
	}
	for _, step := range []string{"first job", "second job", "deletion"} {
		mark, err := b.auditMark()
		if err != nil {
			return err
		}
		if step == "deletion" {
			if err := f.admin.Delete(ctx, items[0]); err != nil {
				return fmt.Errorf("delete item: %w", err)
			}
		}
		took, err := f.carryOut(ctx, items...)
		if err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		counts, err := countRequests(b, mark, ofAgent("pergola-manifest"))
		if err != nil {
			return err
		}
		var texts []string
		for _, verb := range slices.Sorted(maps.Keys(counts)) {
			texts = append(texts, fmt.Sprintf("%s %d", verb, counts[verb]))
		}
		say("%-8s %-10s %6.1fs  %d requests (%s)", strategy, step, took.Seconds(), sum(counts), strings.Join(texts, ", "))
	}
	return nil
}
