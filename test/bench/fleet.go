package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	counterType = "test.pergola.dev/counter"
	// patience bounds how long a host may take to become ready, and to stop.
	patience = time.Minute
	// parallel is how many requests prepare the items at the same time.
	parallel = 32
	// hostConfiguration of the hosts, but for the directory that the plugin writes.
	hostConfiguration = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
plugins: {counter: {workers: 4, confinement: {write: [%q]}}}
`
)

// fleet is some hosts and the namespace of their items.
type fleet struct {
	*bench
	namespace, dir string
	replicas       []*testenv.Replica
}

func (b *bench) newFleet(ctx context.Context) (*fleet, error) {
	b.fleets++
	f := &fleet{bench: b, namespace: fmt.Sprintf("bench-%d", b.fleets), dir: filepath.Join(b.dir, fmt.Sprintf("bench-%d", b.fleets))}
	if err := os.Mkdir(f.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory: %w", err)
	}
	err := errors.Join(
		f.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}),
		f.admin.Create(ctx, &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: f.namespace}}),
	)
	if err != nil {
		return nil, fmt.Errorf("create namespace: %w", err)
	}
	return f, nil
}

// launch starts a replica, which need not be ready yet.
func (f *fleet) launch(ctx context.Context) (*testenv.Replica, error) {
	config := filepath.Join(f.dir, "host.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, hostConfiguration, f.dir), 0o600); err != nil {
		return nil, fmt.Errorf("write HostConfiguration: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := testenv.StartReplica(ctx, f.controlPlane, testenv.HostOptions{
		Binary: f.binary, PluginDir: f.plugins, Config: config,
		PodNamespace: f.namespace, PodName: fmt.Sprintf("%s-%d", f.namespace, len(f.replicas)+1),
	})
	if err != nil {
		return nil, err
	}
	f.replicas = append(f.replicas, r)
	return r, nil
}

// start starts so many replicas and waits until they are ready.
func (f *fleet) start(ctx context.Context, n int) error {
	for range n {
		if _, err := f.launch(ctx); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, r := range f.replicas {
		if err := r.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop stops the replicas.
func (f *fleet) stop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, r := range f.replicas {
		err = errors.Join(err, r.Stop(ctx))
	}
	return err
}

// metric is a metric of all replicas together.
func (f *fleet) metric(ctx context.Context, name string) (sum float64, err error) {
	for _, r := range f.replicas {
		value, err := r.Metric(ctx, name)
		if err != nil {
			return 0, err
		}
		sum += value
	}
	return sum, nil
}

// createItems creates items whose calls take that long, and does something more to each of them.
func (f *fleet) createItems(ctx context.Context, n int, takes time.Duration, then func(context.Context, *v1alpha1.DeployItem) error) ([]*v1alpha1.DeployItem, error) {
	config, err := json.Marshal(map[string]any{
		"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": f.dir, "millis": takes.Milliseconds(),
	})
	if err != nil {
		return nil, fmt.Errorf("marshal configuration: %w", err)
	}
	var items []*v1alpha1.DeployItem
	for i := range n {
		items = append(items, &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: f.namespace, Name: fmt.Sprintf("item-%05d", i), Finalizers: []string{v1alpha1.Finalizer},
				Annotations: map[string]string{
					v1alpha1.DeployerTypeAnnotation: counterType, v1alpha1.DeployerTargetNameAnnotation: v1alpha1.NoTargetName,
				},
			},
			Spec: v1alpha1.DeployItemSpec{Type: counterType, Context: v1alpha1.DefaultContextName, Config: &runtime.RawExtension{Raw: config}},
		})
	}
	return items, forEach(ctx, items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
		if err := f.admin.Create(ctx, item); err != nil {
			return fmt.Errorf("create item: %w", err)
		}
		return then(ctx, item)
	})
}

func forEach(ctx context.Context, items []*v1alpha1.DeployItem, do func(context.Context, *v1alpha1.DeployItem) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	return group.Wait()
}

// setJob sets a new job as a Landscaper does.
func (f *fleet) setJob(ctx context.Context, item *v1alpha1.DeployItem) error {
	now := v1alpha1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"jobID": uuid.NewString(), "jobIDGenerationTime": now, "observedGeneration": item.Status.ObservedGeneration,
		"transitionTimes": map[string]any{"triggerTime": now, "initTime": nil, "finishedTime": nil},
	}})
	if err != nil {
		return fmt.Errorf("set job: %w", err)
	}
	if err := f.admin.Status().Patch(ctx, item, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("set job: %w", err)
	}
	return nil
}

// waitFinished waits until the jobs of all items have succeeded, and looks so often.
func (f *fleet) waitFinished(ctx context.Context, items []*v1alpha1.DeployItem, look time.Duration) error {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for len(items) > 0 {
		last := items[len(items)-1]
		if err := f.admin.Get(ctx, client.ObjectKeyFromObject(last), last); err != nil {
			return fmt.Errorf("read item: %w", err)
		}
		if last.Status.JobIDFinished == last.Status.JobID {
			if last.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				return fmt.Errorf("the job of item %s has not succeeded: %+v", last.Name, last.Status.LastError)
			}
			items = items[:len(items)-1]
			continue
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for item %s: %w", last.Name, ctx.Err())
		}
	}
	return nil
}
