package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const counterType = "test.pergola.dev/counter"

// fleet is several hosts that share their work: replicas, as pods of one namespace, all with the plugin counter.
type fleet struct {
	t *testing.T
	// namespace of the pods, whose names begin with it.
	namespace string
	options   testenv.HostOptions
	// live are the replicas that were neither killed nor stopped.
	live    []*testenv.Replica
	started int
}

// newFleet prepares hosts with a HostConfiguration of these lines. None is started.
func newFleet(t *testing.T, settings ...string) *fleet {
	t.Helper()
	return &fleet{t: t, namespace: newNamespace(t), options: testenv.HostOptions{
		Binary: binaries + "/pergola", PluginDir: pluginDir(t, "counter"),
		Config: writeConfig(t, anyConfig+strings.Join(settings, "\n")+"\n"),
	}}
}

// launch starts a replica under a new pod name and does not wait until it is ready. It is stopped at the end of the
// test, and its log must show no data race.
func (f *fleet) launch() *testenv.Replica {
	f.t.Helper()
	f.started++
	options := f.options
	options.PodNamespace, options.PodName = f.namespace, fmt.Sprintf("%s-%d", f.namespace, f.started)
	r, err := testenv.StartReplica(f.t.Context(), controlPlane, options)
	if err != nil {
		f.t.Fatal(err)
	}
	f.live = append(f.live, r)
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), patience)
		defer cancel()
		for _, live := range f.live { // together, which takes less time
			if err := errors.Join(live.Resume(), live.Terminate()); err != nil {
				f.t.Error(err)
			}
		}
		f.live = nil
		if err := r.Stop(ctx); err != nil && !strings.Contains(err.Error(), "signal: killed") {
			f.t.Error(err)
		}
		if strings.Contains(r.Log(), "DATA RACE") || f.t.Failed() {
			f.t.Errorf("log of replica %s:\n%s", r.Pod.Name, r.Log())
		}
	})
	return r
}

// start starts so many replicas and waits until they are ready.
func (f *fleet) start(n int) []*testenv.Replica {
	f.t.Helper()
	var started []*testenv.Replica
	for range n {
		started = append(started, f.launch())
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for _, r := range started {
		if err := r.WaitReady(ctx); err != nil {
			f.t.Fatal(err)
		}
	}
	return started
}

// kill kills a replica with its plugins. Its pod stays.
func (f *fleet) kill(r *testenv.Replica) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	f.remove(r)
	if err := r.Kill(ctx); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) deletePod(r *testenv.Replica) {
	f.t.Helper()
	if err := r.DeletePod(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// stop stops a replica as Kubernetes does, and waits for its end.
func (f *fleet) stop(r *testenv.Replica) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	f.remove(r)
	if err := r.Stop(ctx); err != nil {
		f.t.Fatal(err)
	}
}

// terminate asks a replica to stop and waits for nothing. That it ends in order is looked at when the test ends.
func (f *fleet) terminate(r *testenv.Replica) {
	f.t.Helper()
	f.remove(r)
	if err := r.Terminate(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) remove(r *testenv.Replica) {
	for i, other := range f.live {
		if other == r {
			f.live = append(f.live[:i:i], f.live[i+1:]...)
			return
		}
	}
}

// holder is the replica that holds the lock of an item.
func (f *fleet) holder(item *v1alpha1.DeployItem) *testenv.Replica {
	f.t.Helper()
	lock := readLock(f.t, item)
	for _, r := range f.live {
		if lock != nil && lock.Spec.PodName == r.Pod.Name {
			return r
		}
	}
	f.t.Fatalf("no replica holds the lock of item %s: %+v", item.Name, lock)
	return nil
}

// metric is a metric of a replica.
func (f *fleet) metric(r *testenv.Replica, name string) float64 {
	f.t.Helper()
	value, err := r.Metric(f.t.Context(), name)
	if err != nil {
		f.t.Fatal(err)
	}
	return value
}

// requestsOf are the requests of the fleet's replicas since a mark.
func (f *fleet) requestsOf(mark auditMark) []request {
	f.t.Helper()
	return slices.DeleteFunc(entriesSince(f.t, mark), func(r request) bool {
		return !strings.HasPrefix(r.User.Username, f.namespace+"-")
	})
}

// call is a record of the plugin counter: the beginning of a call, or its end.
type call struct {
	Time                                  time.Time
	Event, Outcome, Operation, JobID, UID string
	Name                                  string
	PID                                   int
}

// readTrace reads what the plugin has recorded, which may be nothing.
func readTrace(t *testing.T, file string) []call {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var calls []call
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		c := call{}
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			t.Fatalf("decode trace: %v", err)
		}
		calls = append(calls, c)
	}
	return calls
}

// counts are items of the plugin counter and what it has recorded about them.
type counts struct {
	t              *testing.T
	namespace, dir string
}

// newItem returns an item whose calls take that many milliseconds, and whose jobs are in progress after so many of
// them.
func (c *counts) newItem(name string, millis, polls, pollMillis int) *v1alpha1.DeployItem {
	return newItem(c.namespace, name, counterType, string(marshal(c.t, map[string]any{
		"apiVersion": "test.pergola.dev/v1", "kind": "Counter", "dir": c.dir,
		"millis": millis, "polls": polls, "pollMillis": pollMillis,
	})))
}

// calls are the records of an item.
func (c *counts) calls(item *v1alpha1.DeployItem) []call {
	c.t.Helper()
	return readTrace(c.t, filepath.Join(c.dir, c.namespace+"-"+item.Name+".log"))
}

// begun are the calls for an item that have begun.
func (c *counts) begun(item *v1alpha1.DeployItem) (begun []call) {
	c.t.Helper()
	for _, call := range c.calls(item) {
		if call.Event == "begin" {
			begun = append(begun, call)
		}
	}
	return begun
}

// waitBegun waits until so many calls for an item have begun, and returns them.
func (c *counts) waitBegun(item *v1alpha1.DeployItem, n int) (begun []call) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("call %d for item %s", n, item.Name), func(context.Context) (string, error) {
		if begun = c.begun(item); len(begun) < n {
			return fmt.Sprintf("%d calls", len(begun)), nil
		}
		return "", nil
	})
	return begun
}

// check fails the test if two calls for one item were ever under way at the same time.
func (c *counts) check() {
	c.t.Helper()
	for _, overlap := range readTrace(c.t, filepath.Join(c.dir, "overlaps")) {
		c.t.Errorf("two calls for item %s at the same time: %+v", overlap.Name, overlap)
	}
}

// lockName is the name of the lock of an item.
func lockName(item *v1alpha1.DeployItem) string { return "counter-" + string(item.UID) }

// readLock reads the lock of an item; nil if there is none.
func readLock(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.SyncObject {
	t.Helper()
	lock := &v1alpha1.SyncObject{}
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: item.Namespace, Name: lockName(item)}, lock)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatalf("read SyncObject: %v", err)
	}
	return lock
}

// forEach does something to all items, some at a time.
func forEach(t *testing.T, items []*v1alpha1.DeployItem, do func(context.Context, *v1alpha1.DeployItem) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for _, item := range items {
		group.Go(func() error { return do(ctx, item) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}
