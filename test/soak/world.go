package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	namespace    = "soak"
	counterType  = "test.pergola.dev/counter"
	manifestType = "landscaper.gardener.cloud/kubernetes-manifest"
	// patience bounds how long a host may take to become ready, and to stop.
	patience = time.Minute
	// parallel is how many requests prepare the items at the same time.
	parallel = 16
	// callTakes is how long a call of the plugin counter takes.
	callTakes = 20 * time.Millisecond

	hostConfiguration = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
maxPluginCrashes: 100 # plugins are killed on purpose
plugins: {counter: {args: [schedules], confinement: {write: [%q]}}}
`
	counterConfig  = `{"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": %q, "millis": %d, "continuousReconcile": {"every": %q}}`
	manifestConfig = `{
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration", "continuousReconcile": {"every": %q},
		"manifests": [{"policy": "manage", "manifest": {
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": %q, "name": %q}, "data": {"key": "value"}
		}}]
	}`
)

// world is where everything happens.
type world struct {
	*soak
	began time.Time
	// dir is for all files; evidence, in it, for those of the plugin counter.
	dir, evidence string

	controlPlane *testenv.ControlPlane
	admin        client.WithWatch
	// target is the way to the cluster of the Target, which is the same one, and targetAway says that nobody gets through.
	target     *testenv.Proxy
	targetAway atomic.Bool
	observer   *observer
	memory     *memory

	// fleet are the replicas that run.
	fleet   []*testenv.Replica
	started int
}

// newWorld starts everything but hosts. The world must be discarded, unless there is an error.
func (s *soak) newWorld(ctx context.Context) (_ *world, err error) {
	w := &world{soak: s, began: time.Now(), memory: &memory{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.discard(ctx))
		}
	}()
	if w.dir, err = os.MkdirTemp("", "pergola-soak-"); err != nil {
		return w, fmt.Errorf("create directory: %w", err)
	}
	w.evidence = filepath.Join(w.dir, "evidence")
	if err := os.Mkdir(w.evidence, 0o700); err != nil {
		return w, fmt.Errorf("create directory: %w", err)
	}
	if w.controlPlane, err = testenv.StartControlPlane(ctx, w.dir, testenv.WithoutAuditLog()); err != nil {
		return w, err
	}
	if w.admin, err = w.controlPlane.Client(); err != nil {
		return w, err
	}
	w.target, err = testenv.StartProxy(w.controlPlane.Config, func(next *httputil.ReverseProxy) http.Handler {
		next.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } //nolint:forbidigo // how a handler hangs up
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if w.targetAway.Load() {
				panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler hangs up
			}
			next.ServeHTTP(rw, r)
		})
	})
	if err != nil {
		return w, err
	}
	if err := w.createItems(ctx); err != nil {
		return w, err
	}
	w.observer, err = observe(ctx, w.controlPlane.Config)
	return w, err
}

// discard stops what runs, in order, and removes the files.
func (w *world) discard(ctx context.Context) error {
	var errs []error
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, r := range w.fleet {
		errs = append(errs, r.Terminate())
	}
	for _, r := range w.fleet {
		errs = append(errs, r.Stop(stopCtx))
	}
	if w.observer != nil {
		errs = append(errs, w.observer.stop())
	}
	if w.target != nil {
		w.target.Stop()
	}
	if w.controlPlane != nil {
		errs = append(errs, w.controlPlane.Stop())
	}
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// createItems creates the items and what they refer to.
func (w *world) createItems(ctx context.Context) error {
	kubeconfig, err := w.target.Kubeconfig()
	if err != nil {
		return err
	}
	target, err := testenv.NewTarget(namespace, "target", kubeconfig)
	if err != nil {
		return err
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace}},
		target,
	} {
		if err := w.admin.Create(ctx, o); err != nil {
			return fmt.Errorf("prepare the namespace: %w", err)
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for i := range w.items {
		item := w.counterItem(i)
		if i%2 == 1 {
			item = w.manifestItem(i)
		}
		group.Go(func() error {
			if err := w.admin.Create(ctx, item); err != nil {
				return fmt.Errorf("create item %s: %w", item.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (w *world) counterItem(i int) *v1alpha1.DeployItem {
	return newItem(fmt.Sprintf("counter-%05d", i), counterType, fmt.Sprintf(counterConfig, w.evidence, callTakes.Milliseconds(), w.every))
}

func (w *world) manifestItem(i int) *v1alpha1.DeployItem {
	name := fmt.Sprintf("manifest-%05d", i)
	item := newItem(name, manifestType, fmt.Sprintf(manifestConfig, w.every, namespace, name))
	item.Spec.Target = &v1alpha1.ObjectReference{Name: "target", Namespace: namespace}
	return item
}

// newItem returns an item with a timeout that no outage outlasts: a job that fails over one would be right, and hide one that is wrong.
func newItem(name string, itemType v1alpha1.DeployItemType, config string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.DeployItemSpec{
			Type: itemType, Context: v1alpha1.DefaultContextName, Config: &runtime.RawExtension{Raw: []byte(config)},
		},
	}
}

// start starts the replicas and waits until all items have succeeded once.
func (w *world) start(ctx context.Context) error {
	config := filepath.Join(w.dir, "host.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, hostConfiguration, w.evidence), 0o600); err != nil {
		return fmt.Errorf("write HostConfiguration: %w", err)
	}
	for range w.replicas {
		if err := w.launch(ctx); err != nil {
			return err
		}
	}
	readyCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, r := range w.fleet {
		if err := r.WaitReady(readyCtx); err != nil {
			return err
		}
	}
	return w.waitSucceeded(ctx, time.Time{})
}

// launch starts a replica in a pod of a new name, which need not be ready yet.
func (w *world) launch(ctx context.Context) error {
	w.started++
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := testenv.StartReplica(ctx, w.controlPlane, testenv.HostOptions{
		Binary: w.binary, PluginDir: w.plugins, Config: filepath.Join(w.dir, "host.yaml"), Standalone: true,
		PodNamespace: namespace, PodName: fmt.Sprintf("replica-%d", w.started),
	})
	if err != nil {
		return err
	}
	w.fleet = append(w.fleet, r)
	return nil
}

// comeToRest waits until all items have succeeded in a job that was begun after the trouble.
func (w *world) comeToRest(ctx context.Context) error { return w.waitSucceeded(ctx, time.Now()) }

// waitSucceeded waits until each item has succeeded in a job that was begun after a time.
func (w *world) waitSucceeded(ctx context.Context, after time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 3*w.every+2*patience)
	defer cancel()
	return w.observer.wait(ctx, w.items, after)
}
