package container

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// victims are whom a killer kills.
var victims = []string{"host", "plugin", "kubelet"}

// TestKills: host, plugin and kubelet are killed at random while jobs run. Each job runs main once, its exports are right, and nothing is left. A
// kubelet that is killed while it starts a container loses the Pod: the job fails and says so, and the next one goes on.
func TestKills(t *testing.T) { //nolint:paralleltest // there must be no other host, and no Pods of other tests without a kubelet
	const items, jobs, most = 4, 5, 50
	w := emptyWorld(t)
	k := newKiller(w)
	k.start()
	var players sync.WaitGroup
	var ran, lost [items]int
	for i := range items {
		players.Go(func() {
			name := fmt.Sprintf("item-%d", i)
			for n := 1; n <= jobs || n <= most && !k.done(); n++ {
				ran[i] = n
				job := w.put(name, stepConfig("mark", "--", "sleep", "700ms", "--", "count"))
				item := w.await(name, "finished", func(i *v1alpha1.DeployItem) bool { return i.Status.JobIDFinished == job })
				failed := item.Status.LastError
				if item.Status.Phase == v1alpha1.DeployItemPhaseFailed && failed != nil && failed.Reason == "ContainerCannotStart" {
					t.Logf("%s, job %d: %s", name, n, describe(item))
					lost[i]++
					continue
				}
				if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
					t.Errorf("%s, job %d: %s", name, n, describe(item))
					return
				}
				if exports := w.exports(item); exports["count"] != float64(n-lost[i]) {
					t.Errorf("%s, job %d: found exports %v", name, n, exports)
				}
			}
		})
	}
	players.Wait()
	k.stop()
	t.Logf("jobs: %v, of which a kubelet has lost: %v, killed: %v", ran, lost, k.killed)
	for _, what := range victims {
		if k.killed[what] == 0 {
			t.Errorf("the %s was never killed", what)
		}
	}
	for i := range items {
		name := fmt.Sprintf("item-%d", i)
		pods := map[string]int{}
		for _, m := range w.runs(name) {
			pods[m.pod]++
		}
		if len(pods) > ran[i] || len(pods) < ran[i]-lost[i] {
			t.Errorf("%s: expected %d Pods, of which %d were lost, but main has run in %v", name, ran[i], lost[i], pods)
		}
		if lost[i] > k.killed["kubelet"] {
			t.Errorf("%s: %d Pods were lost, but the kubelet was killed %d times", name, lost[i], k.killed["kubelet"])
		}
		for pod, times := range pods {
			if times != 1 {
				t.Errorf("%s: main has run %d times in Pod %s", name, times, pod)
			}
		}
		uid := w.uid(name)
		w.remove(name)
		w.awaitGone(name)
		w.mustHaveNothing(uid)
	}
}

// killer kills a host, its plugin and the kubelet at random, and starts them again.
type killer struct {
	w       *world
	options testenv.HostOptions
	host    *testenv.Host

	mu     sync.Mutex
	killed map[string]int // how often each of the victims was

	stopping chan struct{}
	stopped  chan struct{}
}

func newKiller(w *world) *killer {
	w.Helper()
	// A job fails after three crashes of its plugin by default, and nobody knows in which job the plugin is killed.
	o, err := newHost(w.TempDir(), object{"maxPluginCrashes": 100}, nil)
	if err != nil {
		w.Fatal(err)
	}
	return &killer{
		w: w, options: o, host: w.startHost(o), killed: map[string]int{}, stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
}

func (k *killer) start() {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	go func() {
		defer close(k.stopped)
		for {
			select {
			case <-k.stopping:
				return
			case <-time.After(time.Duration(300+random.IntN(1500)) * time.Millisecond):
			}
			what := victims[random.IntN(len(victims))]
			if err := k.kill(what); err != nil {
				k.w.Errorf("kill the %s: %v", what, err)
				return
			}
		}
	}()
}

// done tells whether each of the victims was killed, or none will be any more.
func (k *killer) done() bool {
	select {
	case <-k.stopped:
		return true
	default:
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.killed) == len(victims)
}

// stop returns when all run again.
func (k *killer) stop() {
	close(k.stopping)
	<-k.stopped
}

func (k *killer) count(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.killed[what]++
}

// kill kills one of the victims. A plugin that does not run, because it was killed just before, is not killed and does not count.
func (k *killer) kill(what string) error {
	ctx, cancel := context.WithTimeout(k.w.Context(), patience)
	defer cancel()
	switch what {
	case "host":
		if err := k.host.Kill(); err != nil {
			return err
		}
		k.count(what) // one that has ended by itself is found at the end of the test
		host, err := testenv.StartHost(ctx, k.options)
		if err != nil {
			return err
		}
		k.host = host
		k.w.stopAtEnd(host)
		return host.WaitReady(ctx)
	case "plugin":
		children, err := k.host.Children()
		if err != nil {
			return err
		}
		for _, pid := range children["container"] {
			if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
				k.count(what)
			} else if !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		return nil
	default:
		if err := node.KillKubelet(ctx); err != nil {
			return err
		}
		k.count(what)
		return node.StartKubelet(ctx)
	}
}

// TestAdoption: a host that comes after another one goes on with the Pod that is there.
func TestAdoption(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := emptyWorld(t)
	k := newKiller(w)
	job := w.put("shop", w.gated("shop", "export", `{"a":1}`))
	w.pod("shop", "running", running)
	if err := k.kill("host"); err != nil {
		t.Fatal(err)
	}
	w.letGo("shop")
	if exports := w.exports(w.finish("shop", job, v1alpha1.DeployItemPhaseSucceeded)); exports["a"] != 1.0 {
		t.Errorf("found exports %v", exports)
	}
	w.mustHaveRun("shop", "RECONCILE")
}

// TestContinuousReconcile: the image is run again when it is due.
func TestContinuousReconcile(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := emptyWorld(t)
	o, err := newHost(t.TempDir(), object{"continuousReconcile": object{"minimumInterval": "1s"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Standalone = true // somebody must set the job
	w.startHost(o)
	w.put("shop", with(stepConfig("mark"), object{"continuousReconcile": object{"every": "2s"}}))
	w.eventually("main to have run three times", func(context.Context) (string, error) {
		if found := len(w.runs("shop")); found < 3 {
			return fmt.Sprintf("%d times", found), nil
		}
		return "", nil
	})
	if err := admin.Delete(t.Context(), w.named("shop")); err != nil { // other tests want the node for themselves
		t.Fatal(err)
	}
	w.awaitGone("shop")
}
