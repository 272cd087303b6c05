package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// patience bounds how long a host may take to become ready, and to stop, and how long a test waits for something that
// must happen.
const patience = 2 * time.Minute

// namespace is where everything is: its writes are in the audit log with their bodies.
const namespace = testenv.AuditedNamespace

// hostConfiguration lets plugins write evidence, and crash because they are killed on purpose.
const hostConfiguration = `apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
%s
plugins: {counter: {args: [schedules], confinement: {write: [%q]}}}
`

// variant is what distinguishes one kind of trouble from another.
type variant struct {
	replicas   int
	standalone bool
	// settings are lines of the HostConfiguration.
	settings string
	// calm is that of the judge.
	calm bool
	// length is how long there is trouble, pause the longest time between two actions, and outage that of the target.
	length, pause, outage time.Duration
	actions               []action
}

// action is something that happens to an item, or to a host.
type action struct {
	name string
	// weight is how often it is done, compared with others. What has must set is done at least once.
	weight int
	must   bool
	// do reports whether something was done: there may be nothing to do it to.
	do func(e *engine, item string) bool
}

// engine lets things happen.
type engine struct {
	variant
	t      *testing.T
	seed   uint64
	random *rand.Rand
	judge  *judge

	plane *testenv.ControlPlane
	// admin is the Landscaper, and all users.
	admin client.Client
	// targetAway says that nobody gets through to the cluster of the Target, which is the same one.
	targetAway atomic.Bool
	// dir has the evidence, and logs what the hosts have logged.
	dir, logs string
	// options are those of all hosts.
	options testenv.HostOptions
	// fleet are the replicas that run.
	fleet   []*testenv.Replica
	started int

	memory  samples  // of the first replica
	names   []string // of the items
	jobs    int      // that were set
	done    map[string]int
	awaited string // what the test waits for, and what it has seen of it last
}

// newEngine starts everything but hosts.
func newEngine(t *testing.T, v variant) *engine {
	t.Helper()
	if testing.Short() {
		t.Skip("this test needs a control plane")
	}
	programs, err := testenv.Binaries()
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{variant: v, t: t, seed: *seed, dir: t.TempDir(), done: map[string]int{}, memory: samples{}}
	for e.seed == 0 {
		e.seed = rand.Uint64()
	}
	e.random, e.judge = rand.New(rand.NewPCG(e.seed, 0)), &judge{t: t, calm: v.calm, outcomes: map[string]int{}}
	t.Log("to repeat it: " + e.repeat())
	if e.logs, err = os.MkdirTemp("", "chaos-logs-"); err != nil { //nolint:usetesting // they stay after a failure
		t.Fatal(err)
	}
	t.Cleanup(e.conclude)
	e.plane, e.admin = testenv.StartForTest(t)
	e.options = testenv.HostOptions{
		Binary: filepath.Join(programs, "pergola"), Standalone: v.standalone, PodNamespace: namespace,
		PluginDir: t.TempDir(), Config: filepath.Join(t.TempDir(), "host.yaml"),
	}
	config := fmt.Appendf(nil, hostConfiguration, v.settings, e.dir)
	if err := os.WriteFile(e.options.Config, config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, plugin := range []string{"test/counter", "plugins/manifest"} {
		if err := testenv.AddPlugin(filepath.Join(programs, plugin), e.options.PluginDir, filepath.Base(plugin)); err != nil {
			t.Fatal(err)
		}
	}
	e.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	e.create(&v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: namespace}})
	e.createTarget()
	return e
}

// conclude says at last what is wrong, and where the logs of all hosts are.
func (e *engine) conclude() {
	if !e.t.Failed() {
		_ = os.RemoveAll(e.logs)
		return
	}
	e.t.Logf("to repeat it: %s; logs of the hosts: %s; done %v, waited for %s, violations:\n%s",
		e.repeat(), e.logs, e.done, e.awaited, strings.Join(e.judge.violations, "\n"))
}

func (e *engine) repeat() string {
	return fmt.Sprintf("go test ./test/chaos -v -run %s -chaos.seed=%d -chaos.for=%s -chaos.items=%d",
		e.t.Name(), e.seed, *length, *items)
}

func (e *engine) create(object client.Object) {
	e.t.Helper()
	if err := e.admin.Create(e.t.Context(), object); err != nil {
		e.t.Fatalf("create %T: %v", object, err)
	}
}

// createTarget creates a Target behind a proxy that hangs up while the target is away.
func (e *engine) createTarget() {
	e.t.Helper()
	server, err := url.Parse(e.plane.Config.Host)
	if err != nil {
		e.t.Fatal(err)
	}
	next := httputil.NewSingleHostReverseProxy(server)
	if next.Transport, err = rest.TransportFor(e.plane.Config); err != nil {
		e.t.Fatal(err)
	}
	next.FlushInterval = -1 // for watches
	next.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {
		panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler hangs up
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.targetAway.Load() {
			panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler hangs up
		}
		r.Header.Del("Authorization") // that of the transport counts
		next.ServeHTTP(w, r)
	}))
	e.t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	kubeconfig, err := testenv.InlineKubeconfig(&rest.Config{Host: proxy.URL, BearerToken: "for the proxy"})
	if err != nil {
		e.t.Fatal(err)
	}
	target, err := testenv.NewTarget(namespace, "target", kubeconfig)
	if err != nil {
		e.t.Fatal(err)
	}
	e.create(target)
}

// start starts the hosts, which need not be ready yet.
func (e *engine) start() {
	for range e.replicas {
		e.launch()
	}
}

// run lets actions happen, one after the other.
func (e *engine) run() {
	total := 0
	for _, a := range e.actions {
		total += a.weight
	}
	for end := time.Now().Add(e.length); time.Now().Before(end) || e.lacks() && time.Now().Before(end.Add(patience)); {
		dice, item := e.random.IntN(total), e.names[e.random.IntN(len(e.names))]
		for _, a := range e.actions {
			if dice -= a.weight; dice < 0 {
				if a.do(e, item) {
					e.done[a.name]++
				}
				break
			}
		}
		if e.calm {
			e.sample()
		}
		e.wait(e.pause) // not for anything: to spread what is done over time
	}
}

// lacks reports whether something that must happen has not happened yet.
func (e *engine) lacks() bool {
	return slices.ContainsFunc(e.actions, func(a action) bool { return a.must && e.done[a.name] == 0 })
}

// eventually waits for a condition, which returns "" when it holds and else what is there instead.
func (e *engine) eventually(what string, condition func(ctx context.Context) (string, error)) {
	e.t.Helper()
	await.For(e.t.Context(), e.t, patience, what, func(ctx context.Context) (string, error) {
		found, err := condition(ctx)
		e.awaited = fmt.Sprintf("%s: %s %v", what, found, err)
		return found, err
	})
}

// wait lets others be busy for a while.
func (e *engine) wait(longest time.Duration) {
	select {
	case <-time.After(time.Duration(e.random.Int64N(int64(longest)))):
	case <-e.t.Context().Done():
	}
}

// launch starts a replica in a pod of a new name, which need not be ready yet. It is stopped at the end of the test.
func (e *engine) launch() {
	e.t.Helper()
	e.started++
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	options := e.options
	options.PodName = fmt.Sprintf("replica-%d", e.started)
	log, err := os.Create(filepath.Join(e.logs, options.PodName))
	if err != nil {
		e.t.Fatal(err)
	}
	options.Log = log
	r, err := testenv.StartReplica(ctx, e.plane, options)
	if err != nil {
		e.t.Fatal(err)
	}
	e.fleet = append(e.fleet, r)
	e.t.Cleanup(func() { _ = errors.Join(r.Host.Kill(), log.Close()) }) // it has ended unless the test has failed
}

// end ends a replica by its method Kill or Stop.
func (e *engine) end(r *testenv.Replica, by func(context.Context) error) {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), patience)
	defer cancel()
	if err := by(ctx); err != nil {
		e.t.Fatalf("%s: %v", r.Pod.Name, err)
	}
	if strings.Contains(r.Log(), "DATA RACE") {
		e.t.Fatalf("log of %s:\n%s", r.Pod.Name, r.Log())
	}
	e.fleet = slices.DeleteFunc(e.fleet, func(other *testenv.Replica) bool { return other == r })
}

// finish stops all hosts and judges.
func (e *engine) finish() {
	e.t.Helper()
	for _, r := range e.fleet { // together, which takes less time
		if err := r.Terminate(); err != nil {
			e.t.Fatal(err)
		}
	}
	for _, r := range slices.Clone(e.fleet) {
		e.end(r, r.Stop)
	}
	j := e.judge
	j.look(e.plane.AuditLog, readCalls(e.t, e.dir), len(j.restarts) > 0)
	e.t.Logf("done: %v; calls: %v; %d writes of hosts, %d jobs ended and %d locks taken over",
		e.done, j.outcomes, j.hostWrites, j.jobs, j.takeovers)
	if j.jobs == 0 || e.lacks() {
		e.t.Error("too little has happened for the test to mean anything")
	}
}
