package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	counterType = "test.pergola.dev/counter"
	targetName  = "target"
	// patience bounds how long a host may take to become ready, and to stop.
	patience = time.Minute
	// parallel is how many requests prepare the items at the same time.
	parallel = 32
	// hostConfiguration of the replicas, which differ in the last line.
	hostConfiguration = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
`
)

// fleet is some hosts and a namespace with items and a Target, which is this cluster.
type fleet struct {
	*bench
	namespace, dir string
	hosts          []*testenv.Host
}

func (b *bench) newFleet(ctx context.Context) (*fleet, error) {
	b.fleets++
	name := fmt.Sprintf("bench-%d", b.fleets)
	f := &fleet{bench: b, namespace: name, dir: filepath.Join(b.dir, name)}
	kubeconfig, err := testenv.InlineKubeconfig(b.controlPlane.Config)
	if err != nil {
		return nil, err
	}
	target, err := testenv.NewTarget(name, targetName, kubeconfig)
	if err != nil {
		return nil, err
	}
	return f, errors.Join(os.Mkdir(f.dir, 0o700),
		f.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}),
		f.admin.Create(ctx, &v1alpha1.Context{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: name},
		}),
		f.admin.Create(ctx, target))
}

// startDeployers starts a host with the real deployers, alone, which need not be ready yet.
func (f *fleet) startDeployers(ctx context.Context) (*testenv.Host, error) {
	config, err := f.configure("")
	if err != nil {
		return nil, err
	}
	host, err := testenv.StartHost(ctx, testenv.HostOptions{
		Binary: f.binary, Kubeconfig: f.controlPlane.Kubeconfig, PluginDir: f.deployers, Config: config,
	})
	if err == nil {
		f.hosts = append(f.hosts, host)
	}
	return host, err
}

// startCounter starts a replica with the plugin counter, which need not be ready yet, and returns it with the name of
// its user.
func (f *fleet) startCounter(ctx context.Context) (host *testenv.Host, user string, err error) {
	line := fmt.Sprintf("plugins: {counter: {workers: 4, confinement: {write: [%q]}}}", f.dir)
	return f.startReplica(ctx, f.plugins, line)
}

// startReplica starts a replica with plugins of a directory and a line of HostConfiguration.
func (f *fleet) startReplica(ctx context.Context, plugins, line string) (host *testenv.Host, user string, err error) {
	config, err := f.configure(line)
	if err != nil {
		return nil, "", err
	}
	user = fmt.Sprintf("%s-%d", f.namespace, len(f.hosts)+1)
	r, err := testenv.StartReplica(ctx, f.controlPlane, testenv.HostOptions{
		Binary: f.binary, PluginDir: plugins, Config: config, PodNamespace: f.namespace, PodName: user,
	})
	if err != nil {
		return nil, "", err
	}
	f.hosts = append(f.hosts, r.Host)
	return r.Host, user, nil
}

// configure writes the HostConfiguration with a last line.
func (f *fleet) configure(line string) (file string, err error) {
	text := hostConfiguration
	if f.scoped {
		text += "namespaces: [" + f.namespace + ", " + metav1.NamespaceDefault + "]\n"
	}
	file = filepath.Join(f.dir, "host.yaml")
	if err := os.WriteFile(file, []byte(text+line), 0o600); err != nil {
		return "", fmt.Errorf("write HostConfiguration: %w", err)
	}
	return file, nil
}

// waitReady waits until all hosts are ready.
func (f *fleet) waitReady(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, host := range f.hosts {
		err = errors.Join(err, host.WaitReady(ctx))
	}
	return err
}

// stop stops all hosts.
func (f *fleet) stop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	for _, host := range f.hosts {
		err = errors.Join(err, host.Stop(ctx))
	}
	return err
}

// createItems creates so many items of a type, each with its configuration. Those of the counter have no Target, and
// their finalizer.
func (f *fleet) createItems(
	ctx context.Context, n int, itemType v1alpha1.DeployItemType, config func(name string) fields,
) (items []*v1alpha1.DeployItem, err error) {
	for i := range n {
		item := &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: fmt.Sprintf("item-%05d", i)},
			Spec:       v1alpha1.DeployItemSpec{Type: itemType, Context: v1alpha1.DefaultContextName},
		}
		raw, err := json.Marshal(config(item.Name))
		if err != nil {
			return nil, fmt.Errorf("marshal configuration: %w", err)
		}
		item.Spec.Config = &runtime.RawExtension{Raw: raw}
		item.Annotations = map[string]string{
			v1alpha1.DeployerTypeAnnotation: string(itemType), v1alpha1.DeployerTargetNameAnnotation: targetName,
		}
		if itemType == counterType {
			item.Annotations[v1alpha1.DeployerTargetNameAnnotation] = v1alpha1.NoTargetName
			item.Finalizers = []string{v1alpha1.Finalizer}
		} else {
			item.Spec.Target = &v1alpha1.ObjectReference{Namespace: f.namespace, Name: targetName}
		}
		items = append(items, item)
	}
	return items, forEach(ctx, items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
		return f.admin.Create(ctx, item)
	})
}

// counterConfig is that of items whose calls take that long.
func (f *fleet) counterConfig(takes time.Duration) func(string) fields {
	return func(string) fields {
		return fields{"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": f.dir, "millis": takes.Milliseconds()}
	}
}

func forEach(
	ctx context.Context, items []*v1alpha1.DeployItem, do func(context.Context, *v1alpha1.DeployItem) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	return group.Wait()
}
