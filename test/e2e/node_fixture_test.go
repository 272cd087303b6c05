package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// startTimeout is how long a cluster with a node may take to come up, on a machine that is busy with something else.
const startTimeout = 5 * time.Minute

// nodeWorld is a cluster with a node, the Target of items that are on the cluster of the tests, where a host carries them out.
type nodeWorld struct {
	node   *testenv.Node
	client client.WithWatch // of the node's cluster
	core   rest.Interface   // of the node's cluster, to reach pods through its API server
	items  client.WithWatch // of the cluster of the tests
	host   *testenv.Host
}

// startNodeWorld skips the test on a machine that cannot run a node, and says why.
func startNodeWorld(t *testing.T) *nodeWorld {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	node, err := testenv.StartNode(ctx, t.TempDir())
	if errors.Is(err, testenv.ErrNoNode) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		if err := node.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	w := &nodeWorld{node: node}
	if w.client, err = node.Client(); err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(node.Config)
	if err != nil {
		t.Fatal(err)
	}
	w.core = clientset.CoreV1().RESTClient()
	if w.items, err = controlPlane.Client(); err != nil {
		t.Fatal(err)
	}
	w.host = startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest", "helm")})
	return w
}

// stage is where one item plays: it has a namespace of its own on either cluster, which have the same name.
type stage struct {
	*nodeWorld

	namespace string
	item      *v1alpha1.DeployItem
	story     *story
}

// deploy creates an item with these manifests and sets its job. What the item says from then on is in the log of the test.
func (w *nodeWorld) deploy(t *testing.T, timeout v1alpha1.Duration, manifests ...object) (s *stage, jobID string) {
	t.Helper()
	s = w.newStage(t)
	item := newItem(s.namespace, "item", manifestType, s.config(t, manifests...))
	item.Spec.Timeout = timeout
	return s, s.begin(t, item)
}

func (w *nodeWorld) newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{nodeWorld: w, namespace: newNamespace(t)}
	if err := w.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}); err != nil {
		t.Fatal(err)
	}
	createTargetFor(t, w.node.Config, s.namespace, "node")
	t.Cleanup(func() { s.explain(t) })
	return s
}

// begin creates the item of the stage and sets its job.
func (s *stage) begin(t *testing.T, item *v1alpha1.DeployItem) (jobID string) {
	t.Helper()
	s.item = withTarget(item, "node")
	create(t, s.item)
	s.story = newStory(t, s.items, s.item)
	return setJob(t, s.item)
}

// update gives the item other manifests and sets a new job.
func (s *stage) update(t *testing.T, manifests ...object) (jobID string) {
	t.Helper()
	return s.reconfigure(t, s.config(t, manifests...))
}

// reconfigure gives the item another configuration and sets a new job.
func (s *stage) reconfigure(t *testing.T, config string) (jobID string) {
	t.Helper()
	s.item = setConfig(t, s.item, config)
	s.story.turn()
	return setJob(t, s.item)
}

// config is the configuration of an item with these manifests, which are in the stage's namespace.
func (s *stage) config(t *testing.T, manifests ...object) string {
	t.Helper()
	var documents []string
	for _, m := range manifests {
		m["metadata"].(object)["namespace"] = s.namespace
		documents = append(documents, string(marshal(t, m)))
	}
	return manifestConfig(documents...)
}

// finish waits until the job is finished, checks the phase and returns the item.
func (s *stage) finish(t *testing.T, jobID string, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	t.Helper()
	item := waitFinished(t, s.item, jobID)
	if item.Status.Phase != phase {
		t.Fatalf("expected phase %s, but found %s", phase, describe(item))
	}
	s.story.await(t, phase, "")
	return item
}

// release makes the pods ready that are there now and wait for it.
func (s *stage) release(t *testing.T) {
	t.Helper()
	eventually(t, "pods to be released", func(ctx context.Context) (string, error) {
		pods := slices.DeleteFunc(s.pods(t), func(pod corev1.Pod) bool { return !slices.Contains(pod.Spec.Containers[0].Args, waiting) })
		if len(pods) == 0 {
			return "there is none", nil
		}
		for _, pod := range pods {
			err := s.core.Post().Namespace(pod.Namespace).Resource("pods").Name(fmt.Sprintf("%s:%d", pod.Name, workloadPort)).
				SubResource("proxy").Suffix("release").Do(ctx).Error()
			if err != nil {
				return err.Error(), nil //nolint:nilerr // it is not up yet, or not any more
			}
		}
		return "", nil
	})
}

// meta names an object of the stage.
func (s *stage) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: name}
}

// get reads an object of the node's cluster.
func (s *stage) get(t *testing.T, o client.Object) {
	t.Helper()
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatalf("read %T: %v", o, err)
	}
}

// pods are those of the stage that are not on their way out.
func (s *stage) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	s.list(t, list)
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

func (s *stage) list(t *testing.T, list client.ObjectList) {
	t.Helper()
	if err := s.client.List(t.Context(), list, client.InNamespace(s.namespace)); err != nil {
		t.Fatalf("list %T: %v", list, err)
	}
}

// leftover counts what the deletion of a Deployment leaves to the garbage collector.
type leftover struct{ replicaSets, pods, terminating int }

func (l leftover) String() string {
	return fmt.Sprintf("%d ReplicaSets and %d pods, of which %d are terminating", l.replicaSets, l.pods, l.terminating)
}

func (s *stage) left(t *testing.T) leftover {
	t.Helper()
	replicaSets, pods := &appsv1.ReplicaSetList{}, &corev1.PodList{}
	s.list(t, replicaSets)
	s.list(t, pods)
	left := leftover{replicaSets: len(replicaSets.Items), pods: len(pods.Items)}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			left.terminating++
		}
	}
	return left
}

// explain puts into the log of a test that has failed what the node's cluster says.
func (s *stage) explain(t *testing.T) {
	if !t.Failed() {
		return
	}
	events := &corev1.EventList{}
	if err := s.client.List(context.WithoutCancel(t.Context()), events, client.InNamespace(s.namespace)); err != nil {
		t.Error(err)
	}
	for _, e := range events.Items {
		t.Logf("%s %s/%s: %s %s", e.LastTimestamp.Format(time.TimeOnly), e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

// object is a manifest, or a part of one.
type object = map[string]any

// manifest is one with a spec.
func manifest(apiVersion, kind, name string, spec object) object {
	return object{"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": name}, "spec": spec}
}

// controller is a manifest of a controller of pods that run the workload with these arguments.
func controller(kind, name string, spec object, args ...string) object {
	spec["selector"] = object{"matchLabels": object{"app": name}}
	spec["template"] = object{
		"metadata": object{"labels": object{"app": name}},
		"spec": object{"containers": []any{object{
			"name": "workload", "image": testenv.Workload, "imagePullPolicy": "Never", "args": args,
			"readinessProbe": object{"httpGet": object{"path": "/ready", "port": workloadPort}, "periodSeconds": 1},
		}}},
	}
	return manifest("apps/v1", kind, name, spec)
}

const (
	// workloadPort is where the workload serves.
	workloadPort = 8080
	// waiting is the argument by which it is not ready before it is released.
	waiting = "-wait"
)

// task is a manifest of a Job that runs the workload once with these arguments.
func task(name string, args ...string) object {
	return manifest("batch/v1", "Job", name, object{
		"backoffLimit": 0,
		"template": object{"spec": object{"restartPolicy": "Never", "containers": []any{object{
			"name": "workload", "image": testenv.Workload, "imagePullPolicy": "Never", "args": args,
		}}}},
	})
}

// createTargetFor creates a Target for a cluster, with its kubeconfig inside.
func createTargetFor(t *testing.T, config *rest.Config, namespace, name string) {
	t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.TargetSpec{
			Type:          v1alpha1.KubernetesClusterTargetType,
			Configuration: &runtime.RawExtension{Raw: marshal(t, object{"kubeconfig": string(kubeconfig)})},
		},
	})
}

// backdate makes the job under way so old that it polls every 15 s, so that one that reacts soon was woken.
func backdate(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	const age = 2 * time.Minute
	patch := marshal(t, object{"status": object{"transitionTimes": object{"initTime": v1alpha1.Time{Time: metav1.NowMicro().Add(-age)}}}})
	if err := admin.Status().Patch(t.Context(), item, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}
