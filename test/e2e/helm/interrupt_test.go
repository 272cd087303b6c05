package helm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	deleteFailed = v1alpha1.DeployItemPhaseDeleteFailed

	// abortTime is how long an item may take to be idle after an abort was asked for, whatever Helm was waiting for, and its process to end. It
	// is what users are promised, however busy the machine is.
	abortTime = 5 * time.Second
	// jobTime is the timeout of items whose time is up. It is enough to begin to wait, but nothing depends on that.
	jobTime = "30s"
)

// waiting is a job that waits for what never comes.
type waiting struct {
	name, reason string
	// before is what is deployed before; nil for nothing.
	before deployment
	// waits is what is waited for; nil for a deletion. says is what the item says meanwhile.
	waits deployment
	says  string
	// polls says that no process waits.
	polls bool
	// good is what can be deployed instead.
	good deployment
}

func waits() []waiting {
	options := func(option string) object {
		return object{"helmDeploymentConfig": object{"install": object{option: true}, "upgrade": object{option: true}}}
	}
	hook := func(fails, events string) deployment {
		return deploy("failinghook", object{"hook": object{"fails": fails, "events": events}})
	}
	const ready = "Waiting until these are ready: "
	return []waiting{
		{
			name: "readiness", reason: "the deployer polls", polls: true, says: "shop-workload: ",
			waits: deploy("workload", object{}), good: deploy("plain", object{}),
		},
		{
			name: "wait", reason: "Helm polls", says: ready,
			waits: deploy("workload", object{}, options("wait")), good: deploy("plain", object{}, options("wait")),
		},
		{
			name: "atomic", reason: "Helm would remove everything after a failure", says: ready,
			waits: deploy("workload", object{}, options("atomic")), good: deploy("plain", object{}, options("atomic")),
		},
		{
			name: "atomic-upgrade", reason: "Helm would roll back after a failure", says: ready,
			before: deploy("plain", object{}, options("atomic")),
			waits:  deploy("workload", object{}, options("atomic")), good: deploy("plain", object{"greeting": "new"}, options("atomic")),
		},
		{
			name: "hook", reason: "Helm watches", says: `post-install hook Job "shop-failinghook-hook"`,
			waits: hook("hang", "post-install"), good: deploy("plain", object{}),
		},
		{
			name: "deletion", reason: "Helm watches", says: `pre-delete hook Job "shop-failinghook-hook"`,
			before: hook("hang", "pre-delete"),
		},
	}
}

// TestInterruptedWait interrupts jobs in which something is waited for that never comes, most by Helm itself. Its process ends, and the next
// job goes on from there.
func TestInterruptedWait(t *testing.T) {
	for name, interrupt := range map[string]func(*interruption){
		"abort": abort, "timeout": runOutOfTime, "lost lock": loseLocks, "another job": (*interruption).begin,
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig, err := testenv.InlineKubeconfig(controlPlane.Config)
			if err != nil {
				t.Fatal(err)
			}
			i := &interruption{world: newWorld(t, kubeconfig), jobs: map[string]string{}}
			i.startReplica()
			i.prepare()
			said := i.listen()
			interrupt(i)
			for _, c := range waits() {
				i.goOn(c)
			}
			i.awaitWorkers(0)
			said.check(t)
		})
	}
}

// interruption is a world in which jobs are interrupted.
type interruption struct {
	*world

	jobs map[string]string // by item
}

// startReplica starts a host that locks the items, as one does that may have others beside it.
func (i *interruption) startReplica() {
	i.Helper()
	i.options.PodNamespace, i.options.PodName = i.namespace, i.namespace
	replica, err := testenv.StartReplica(i.Context(), controlPlane, i.options)
	if err != nil {
		i.Fatal(err)
	}
	i.host = replica.Host
	i.keep(i.host)
}

// prepare deploys what is deployed before.
func (i *interruption) prepare() {
	i.Helper()
	jobs := map[string]string{}
	for _, c := range waits() {
		if c.before != nil {
			jobs[c.name] = i.put(c.name, c.before)
		}
	}
	for name, jobID := range jobs {
		i.finish(name, jobID, succeeded)
	}
}

// begin sets the jobs, and returns when all of them wait.
func (i *interruption) begin() {
	i.Helper()
	i.set()
	processes := 0
	for _, c := range waits() {
		i.awaitWord(c.name, c.says)
		if !c.polls {
			processes++
		}
	}
	if workers := i.workers(); workers != processes {
		i.Errorf("expected %d processes of Helm, but found %d", processes, workers)
	}
}

func (i *interruption) set() {
	i.Helper()
	for _, c := range waits() {
		if c.waits == nil {
			i.setTimeout(c.name)
			i.jobs[c.name] = i.remove(c.name)
		} else {
			i.jobs[c.name] = i.put(c.name, c.waits)
		}
	}
}

// setTimeout gives an item that keeps its configuration the timeout of the others.
func (i *interruption) setTimeout(name string) {
	i.Helper()
	spec := object{"timeout": nil}
	if i.timeout != "" {
		spec["timeout"] = i.timeout
	}
	i.change(name, object{"spec": spec})
}

// workers counts the processes of the plugin.
func (i *interruption) workers() (count int) {
	i.Helper()
	children, err := testenv.Children(i.plugin())
	if err != nil {
		i.Fatal(err)
	}
	for _, pids := range children {
		count += len(pids)
	}
	return count
}

// awaitWorkers waits until there are so many processes. One that was stopped has some seconds to bring its release in order, for which the
// item does not wait; its next job does.
func (i *interruption) awaitWorkers(want int) {
	i.Helper()
	i.eventually(fmt.Sprintf("%d processes of Helm to be left", want), func(context.Context) (string, error) {
		if workers := i.workers(); workers != want {
			return fmt.Sprintf("there are %d", workers), nil
		}
		return "", nil
	})
}

// mustBeSettled checks that Helm has noted the end of each operation before its process has ended: whoever looks at the release, with Helm's
// command line or from another host, finds that he can go on.
func (i *interruption) mustBeSettled() {
	i.Helper()
	for _, c := range waits() {
		if revisions := i.revisions(c.name); strings.Contains(strings.Join(revisions, " "), "pending") {
			i.Errorf("%s, %s: expected no operation to be in progress, but found %v", c.name, c.reason, revisions)
		}
	}
}

// abort aborts one job after the other.
func abort(i *interruption) {
	i.begin()
	left := i.workers()
	for _, c := range waits() {
		phase := failed
		if c.waits == nil {
			phase = deleteFailed
		}
		if !c.polls {
			left--
		}
		asked := time.Now()
		i.ask(c.name, v1alpha1.OperationAbort)
		item := i.finish(c.name, i.jobs[c.name], phase)
		idle := time.Since(asked)
		i.awaitWorkers(left)
		took := time.Since(asked)
		i.Logf("%s: idle after %d ms, and without a process after %d ms", c.name, idle.Milliseconds(), took.Milliseconds())
		if took > abortTime {
			i.Errorf("%s, %s: expected that nobody works for the item %s after the abort, but it took %s", c.name, c.reason, abortTime, took)
		}
		if item.Status.LastError == nil || item.Status.LastError.Reason != "Aborted" {
			i.Errorf("%s: expected the reason Aborted, but found %s", c.name, describe(item))
		}
	}
	i.mustBeSettled()
}

// runOutOfTime waits until the time of all jobs is up.
func runOutOfTime(i *interruption) {
	i.timeout = jobTime
	i.set()
	for _, c := range waits() {
		phase := failed
		if c.waits == nil {
			phase = deleteFailed
		}
		item := i.finish(c.name, i.jobs[c.name], phase)
		if item.Status.LastError == nil || !slices.Contains(item.Status.LastError.Codes, v1alpha1.ErrorTimeout) {
			i.Errorf("%s, %s: expected a timeout, but found %s", c.name, c.reason, describe(item))
		}
		i.Logf("%s: %s", c.name, describe(item))
	}
	i.timeout = ""
	i.awaitWorkers(0)
	i.mustBeSettled()
}

// loseLocks has somebody else take the locks of all items, and give them up again when nobody works on them any more.
func loseLocks(i *interruption) {
	i.begin()
	i.create(testenv.NewPod(i.namespace, "theirs"))
	taken := time.Now()
	i.lock("theirs")
	i.awaitWorkers(0)
	i.Logf("no process of Helm is left after %d ms", time.Since(taken).Milliseconds())
	i.mustBeSettled()
	for _, c := range waits() {
		if item, err := i.find(c.name); err != nil || item.Status.JobIDFinished == i.jobs[c.name] {
			i.Errorf("%s, %s: expected the job to be left to who has the lock, but found %s, %v", c.name, c.reason, describe(item), err)
		}
	}
	i.lock("")
}

// lock writes the name of a pod into the locks of all items, as another implementation does.
func (i *interruption) lock(pod string) {
	i.Helper()
	for _, c := range waits() {
		item, err := i.find(c.name)
		if err != nil {
			i.Fatal(err)
		}
		lock := &v1alpha1.SyncObject{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "helm-" + string(item.UID)}}
		patch := i.marshal(object{"spec": object{"podName": pod, "lastUpdateTime": v1alpha1.Now()}})
		if err := admin.Patch(i.Context(), lock, client.RawPatch(types.MergePatchType, patch)); err != nil {
			i.Fatal(err)
		}
	}
}

// goOn sets the next job, which can be done, and checks what comes of it.
func (i *interruption) goOn(c waiting) {
	i.Helper()
	if c.waits != nil {
		i.finish(c.name, i.put(c.name, c.good), succeeded)
		i.mustBeClean(c.name)
		return
	}
	i.setTimeout(c.name)
	i.setJob(c.name)
	i.completeHook(c.name)
	i.awaitGone(c.name)
	i.mustBeGone(c.name)
}

// completeHook does what a controller does when the Job of a hook is complete. Helm may replace the Job before it waits for it, so that is
// done again and again until the item is gone.
func (i *interruption) completeHook(name string) {
	i.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: i.home(name), Name: "shop-failinghook-hook"}}
	i.eventually("the item to go with the hook", func(ctx context.Context) (string, error) {
		if _, err := i.find(name); apierrors.IsNotFound(err) {
			return "", nil
		}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return err.Error(), client.IgnoreNotFound(err)
		}
		if job.Status.CompletionTime != nil {
			return "the hook is complete", nil
		}
		now := metav1.Now()
		job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue},
		}}
		if err := admin.Status().Update(ctx, job); err != nil {
			return err.Error(), nil //nolint:nilerr // it was replaced
		}
		return "the hook is complete now", nil
	})
}
