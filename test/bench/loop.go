package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	// loopAgent is the user agent of the bare loop.
	loopAgent = "bare-loop"
	// loopWorkers is as many as a host has for a plugin by default.
	loopWorkers = 20
	loopReady   = "ready"
)

// loop is the bare loop: a controller of items with one ConfigMap each that does what Landscaper's contract asks with
// the least requests that do it, and nothing else. It has no plugins, reads no Target, and gives up at errors.
type loop struct {
	client client.Client // reads and writes at the API server
	locks  bool

	known sync.Map // *remembered, by the item's UID
}

// remembered is what the loop knows of an item without reading it.
type remembered struct {
	finished string // the job; the watch may show an older state of the item
	lock     *v1alpha1.SyncObject
}

func newLoop(config *rest.Config, locks bool) (*loop, error) {
	scheme, err := testenv.Scheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent, config.WarningHandler = -1, loopAgent, rest.NoWarnings{}
	cl, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("create client: %w", err)
	}
	return &loop{client: cl, locks: locks}, nil
}

// startLoop starts the bare loop as a process of its own, as a host is one, and waits until it watches the items.
func (b *bench) startLoop(ctx context.Context, locks bool) (pid int, stop func() error, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, nil, fmt.Errorf("find own program: %w", err)
	}
	args := []string{"-bare-loop", b.controlPlane.Kubeconfig, "-locks=" + strconv.FormatBool(locks)}
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // it is this program
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, nil, fmt.Errorf("start bare loop: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, fmt.Errorf("start bare loop: %w", err)
	}
	stop = func() error { return errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()) }
	if line, err := bufio.NewReader(out).ReadString('\n'); line != loopReady+"\n" {
		return 0, nil, errors.Join(fmt.Errorf("bare loop did not become ready: %w", err), stop())
	}
	return cmd.Process.Pid, stop, nil
}

// runLoop is the bare loop's process.
func runLoop(ctx context.Context, kubeconfig string, locks bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	l, err := newLoop(config, locks)
	if err != nil {
		return err
	}
	config.UserAgent = loopAgent
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: l.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return fmt.Errorf("create manager: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.DeployItem{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: loopWorkers}).
		Complete(reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			item := &v1alpha1.DeployItem{}
			if err := mgr.GetClient().Get(ctx, r.NamespacedName, item); err != nil || item.Spec.Type != v1alpha2.Type {
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			return ctrl.Result{}, l.reconcile(ctx, item)
		}))
	if err != nil {
		return fmt.Errorf("create controller: %w", err)
	}
	go func() {
		if mgr.GetCache().WaitForCacheSync(ctx) {
			say(loopReady)
		}
	}()
	return mgr.Start(ctx)
}

func (l *loop) reconcile(ctx context.Context, item *v1alpha1.DeployItem) error {
	value, _ := l.known.LoadOrStore(item.UID, &remembered{})
	known := value.(*remembered) //nolint:forcetypeassert // nothing else is put there
	if s := item.Status; s.JobID == s.JobIDFinished || s.JobID == known.finished {
		return nil
	}
	if err := l.acquire(ctx, item, known); err != nil {
		return fmt.Errorf("acquire lock: %w", err)
	}
	if err := l.carryOut(ctx, item); err != nil {
		return fmt.Errorf("carry out job: %w", err)
	}
	known.finished = item.Status.JobID
	if err := l.release(ctx, known); err != nil {
		return fmt.Errorf("release lock: %w", err)
	}
	return nil
}

// carryOut picks the job up, creates the ConfigMap or sees that it is there, and finishes the job.
func (l *loop) carryOut(ctx context.Context, item *v1alpha1.DeployItem) error {
	config := &struct {
		Manifests []struct{ Manifest *corev1.ConfigMap }
	}{}
	if err := json.Unmarshal(item.Spec.Config.Raw, config); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	object := config.Manifests[0].Manifest
	isNew := item.Status.ProviderStatus == nil
	if err := l.pickUp(ctx, item, object); err != nil {
		return fmt.Errorf("pick up job: %w", err)
	}
	var err error
	if isNew {
		err = l.client.Create(ctx, object)
	} else {
		err = l.client.Get(ctx, client.ObjectKeyFromObject(object), object)
	}
	if err := errors.Join(err, l.client.Create(ctx, succeeded(item))); err != nil {
		return err
	}
	return l.writeStatus(ctx, item, func(s *v1alpha1.DeployItemStatus) {
		now := v1alpha1.Now()
		s.Phase, s.JobIDFinished, s.TransitionTimes.FinishedTime = v1alpha1.DeployItemPhaseSucceeded, s.JobID, &now
	})
}

// pickUp notes what is about to be created before it is, and sees to it that the item does not go without it.
func (l *loop) pickUp(ctx context.Context, item *v1alpha1.DeployItem, object *corev1.ConfigMap) error {
	providerStatus, err := json.Marshal(v1alpha2.ProviderStatus{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha2.GroupVersion.String(), Kind: v1alpha2.ProviderStatusKind},
		ManagedResources: []managedresource.ManagedResourceStatus{{Resource: managedresource.ObjectReference{
			APIVersion: object.APIVersion, Kind: object.Kind, Name: object.Name, Namespace: object.Namespace,
		}}},
	})
	if err != nil {
		return fmt.Errorf("marshal provider status: %w", err)
	}
	err = l.writeStatus(ctx, item, func(s *v1alpha1.DeployItemStatus) {
		now := v1alpha1.Now()
		s.Phase, s.ObservedGeneration, s.LastReconcileTime = v1alpha1.DeployItemPhaseProgressing, item.Generation, &now
		s.Deployer = v1alpha1.DeployerInformation{Identity: loopAgent, Name: loopAgent, Version: "1"}
		s.TransitionTimes.InitTime = &now
		s.ProviderStatus = &runtime.RawExtension{Raw: providerStatus}
	})
	if before := item.DeepCopy(); err == nil && controllerutil.AddFinalizer(item, v1alpha1.Finalizer) {
		err = l.client.Patch(ctx, item, since(before))
	}
	return err
}

func (l *loop) writeStatus(
	ctx context.Context, item *v1alpha1.DeployItem, change func(*v1alpha1.DeployItemStatus),
) error {
	before := item.DeepCopy()
	change(&item.Status)
	return l.client.Status().Patch(ctx, item, since(before))
}

func succeeded(item *v1alpha1.DeployItem) *corev1.Event {
	now := metav1.Now()
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: item.Namespace, GenerateName: item.Name + "-"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "DeployItem", Namespace: item.Namespace, Name: item.Name,
			UID: item.UID,
		},
		Type: corev1.EventTypeNormal, Reason: "Succeeded", Message: "The job has succeeded.",
		Source: corev1.EventSource{Component: loopAgent}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

func since(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// acquire takes the lock. Who has not had it before creates it, and reads it if it is there.
func (l *loop) acquire(ctx context.Context, item *v1alpha1.DeployItem, known *remembered) error {
	if !l.locks {
		return nil
	}
	if known.lock == nil {
		known.lock = &v1alpha1.SyncObject{
			ObjectMeta: metav1.ObjectMeta{Namespace: item.Namespace, Name: loopAgent + "-" + string(item.UID)},
			Spec: v1alpha1.SyncObjectSpec{
				PodName: loopAgent, Kind: "DeployItem", Name: item.Name, LastUpdateTime: v1alpha1.Now(), Prefix: loopAgent,
			},
		}
		if err := l.client.Create(ctx, known.lock); !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := l.client.Get(ctx, client.ObjectKeyFromObject(known.lock), known.lock); err != nil {
			return err
		}
	}
	return l.writeLock(ctx, known.lock, loopAgent)
}

func (l *loop) release(ctx context.Context, known *remembered) error {
	if !l.locks {
		return nil
	}
	return l.writeLock(ctx, known.lock, "")
}

func (l *loop) writeLock(ctx context.Context, lock *v1alpha1.SyncObject, holder string) error {
	before := lock.DeepCopy()
	lock.Spec.PodName, lock.Spec.LastUpdateTime = holder, v1alpha1.Now()
	return l.client.Patch(ctx, lock, since(before))
}
