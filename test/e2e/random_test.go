package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/pergola-deploy/pergola/test/testenv"
)

var (
	randomSeed  = flag.Uint64("random.seed", 0, "seed of the random test; 0 for another one each time")
	randomSteps = flag.Int("random.steps", 1500, "steps of the random test")
)

const (
	chaosType   = "test.pergola.dev/chaos"
	foreignType = "test.pergola.dev/foreign"
	// randomWorkers are fewer than items, so that some jobs have to wait for their turn.
	randomWorkers = 4
	maxStepPause  = 40 * time.Millisecond
)

// TestRandomInterleavings lets a Landscaper, users, a deployer that does as it likes, and a host that is killed and started again
// do random things to some deploy items, and looks afterwards, in the API server's audit log and the deployer's trace, whether the
// host has kept its promises at every single write.
//
// What is done, in which order, and how the deployer behaves in a job is repeated with -random.seed; what meets what is not.
func TestRandomInterleavings(t *testing.T) {
	d := newDisorder(t)
	t.Logf("to repeat it: -random.seed=%d -random.steps=%d", d.seed, *randomSteps)
	d.startHost()
	d.createForeignItems()
	for range *randomSteps {
		d.step()
	}
	d.comeToRest()
	d.stopHost()

	log := readAudit(t, d.mark)
	calls := readTrace(t, d.trace)
	d.checkForeignItems(log)
	histories := newHistories(log, d.names, calls)
	for _, h := range histories {
		if found := h.check(); len(found) > 0 {
			d.violations = append(d.violations, found...)
			t.Errorf("deploy item %s:\n%s", h.name, h.describe(found))
		}
	}
	d.reportCoverage(histories, calls)
}

// conclude says at last what is wrong: the logs of all the hosts are long, and of long logs the end is what one gets to see.
func (d *disorder) conclude() {
	if d.t.Failed() {
		d.t.Logf("with -random.seed=%d: done %v, last waited for: %s, violations: %s", d.seed, d.done, d.awaited, strings.Join(d.violations, "\n"))
	}
}

// disorder is what happens at random.
type disorder struct {
	t      *testing.T
	seed   uint64
	random *rand.Rand

	namespace, dir, trace string
	names, foreign        []string
	landscaper, user      *actor
	options               testenv.HostOptions
	host                  *testenv.Host
	mark                  int64
	jobs                  int            // that were set
	done                  map[string]int // actions by their names
	awaited               string         // what the test waits for, and what it has seen of it last
	violations            []string
}

func newDisorder(t *testing.T) *disorder {
	t.Helper()
	seed := *randomSeed
	for seed == 0 {
		seed = rand.Uint64()
	}
	run, dir := uuid.NewString()[:8], t.TempDir()
	d := &disorder{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 0)),
		namespace: testenv.AuditedNamespace, dir: dir, trace: filepath.Join(dir, "trace"),
		landscaper: newActor(t, "landscaper"), user: newActor(t, "user"),
		options: testenv.HostOptions{
			PluginDir: pluginDir(t, "chaos"), Config: workersConfig(t, randomWorkers),
		},
		mark: auditMark(t),
		done: map[string]int{},
	}
	for i := range 10 {
		d.names = append(d.names, fmt.Sprintf("%s-%d", run, i))
	}
	for _, how := range []string{"annotated", "plain", "lying"} {
		d.foreign = append(d.foreign, fmt.Sprintf("%s-foreign-%s", run, how))
	}
	t.Cleanup(d.conclude) // before any host is started, and so after all have told their logs
	d.createNamespace()
	return d
}

// action is something that somebody does to an item.
type action struct {
	name string
	// weight is how often it is done, compared with others.
	weight int
	do     func(d *disorder, name string)
}

var actions = []action{
	{"set a job", 30, (*disorder).setJob},
	{"set a job in the middle", 5, func(d *disorder, name string) { d.setJobRudely(name, true) }},
	{"set a job in the middle without resetting times", 5, func(d *disorder, name string) { d.setJobRudely(name, false) }},
	{"interrupt", 5, (*disorder).interrupt},
	{"create", 20, (*disorder).create},
	{"change spec", 6, (*disorder).changeSpec},
	{"change timeout", 3, (*disorder).changeTimeout},
	{"label", 6, (*disorder).label},
	{"operation reconcile", 4, func(d *disorder, name string) { d.operation(name, "reconcile") }},
	{"operation force-reconcile", 4, func(d *disorder, name string) { d.operation(name, "force-reconcile") }},
	{"operation abort", 5, func(d *disorder, name string) { d.operation(name, "abort") }},
	{"operation nonsense", 1, func(d *disorder, name string) { d.operation(name, "nonsense") }},
	{"delete", 5, (*disorder).delete},
	{"leave behind", 1, (*disorder).leaveBehind},
	{"touch a foreign item", 4, (*disorder).touchForeign},
	{"take the Context away or bring it back", 2, (*disorder).toggleContext},
	{"kill the plugin", 1, (*disorder).killPlugin},
	{"kill the host", 2, (*disorder).killHost},
}

// step does something to an item and lets others be busy for a moment.
func (d *disorder) step() {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	dice, name := d.random.IntN(total), d.names[d.random.IntN(len(d.names))]
	for _, a := range actions {
		if dice -= a.weight; dice < 0 {
			a.do(d, name)
			break
		}
	}
	select { // not to wait for anything: to spread what is done over time
	case <-time.After(time.Duration(d.random.Int64N(int64(maxStepPause)))):
	case <-d.t.Context().Done():
	}
}

// did counts an action that was done indeed.
func (d *disorder) did(what string) { d.done[what]++ }

func (d *disorder) startHost() { d.host = startHost(d.t, d.options) }

// killHost kills the host and starts another one, which may be killed before it is ready.
func (d *disorder) killHost(string) {
	if err := d.host.Kill(); err != nil {
		d.t.Fatal(err)
	}
	d.did("kill host")
	d.startHost()
}

func (d *disorder) stopHost() {
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	if err := d.host.Stop(ctx); err != nil {
		d.t.Fatal(err)
	}
}

// killPlugin kills the plugin if it runs. It crashes by itself, too, and may have done so since.
func (d *disorder) killPlugin(string) {
	children, err := d.host.Children()
	if err != nil {
		d.t.Fatal(err)
	}
	for _, child := range children["chaos"] {
		switch err := syscall.Kill(child, syscall.SIGKILL); {
		case err == nil:
			d.did("kill plugin")
		case !errors.Is(err, syscall.ESRCH):
			d.t.Fatal(err)
		}
	}
}

// comeToRest waits until nothing is left to do: the deployer succeeds from now on, users do nothing any more, and the Landscaper
// only sees deletions through.
func (d *disorder) comeToRest() {
	touch(d.t, filepath.Join(d.dir, "calm"))
	calm := time.Now()
	d.ensureContext()
	triggered := map[string]bool{}
	for _, name := range d.names {
		eventually(d.t, "deploy item "+name+" to come to rest", func(ctx context.Context) (string, error) {
			what, err := d.unrest(ctx, name, triggered)
			d.awaited = fmt.Sprintf("rest of deploy item %s: %s %v", name, what, err)
			return what, err
		})
	}
	d.t.Logf("at rest after %s", time.Since(calm))
}

// reportCoverage fails a test in which hardly anything has happened.
func (d *disorder) reportCoverage(histories []*history, calls []call) {
	writes, jobs := 0, 0
	for _, h := range histories {
		writes += h.ours
		jobs += len(h.finished)
	}
	outcomes := map[string]int{}
	for _, c := range calls {
		if c.Event != "begin" {
			outcomes[c.kind()]++
		}
	}
	d.t.Logf("%d items, %d writes of the host, %d jobs finished by it; done: %v; calls ended: %v", len(histories), writes, jobs, d.done, outcomes)
	if d.done["kill host"] == 0 || d.done["interrupt"] == 0 || jobs == 0 || outcomes["succeeded"] == 0 {
		d.t.Error("too little has happened for the test to mean anything: it needs more steps")
	}
}
