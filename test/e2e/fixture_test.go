package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// object is a JSON object.
type object = map[string]any

const (
	succeeded = v1alpha1.DeployItemPhaseSucceeded
	failed    = v1alpha1.DeployItemPhaseFailed
)

const (
	mockType     = "landscaper.gardener.cloud/mock"
	manifestType = "landscaper.gardener.cloud/kubernetes-manifest"
	probeType    = "test.pergola.dev/probe"
	mockSucceeds = `{"apiVersion":"mock.deployer.landscaper.gardener.cloud/v1alpha1","kind":"ProviderConfiguration"}`
)

// eventually waits for a condition, which returns "" when it holds and else what is there instead.
func eventually(t *testing.T, what string, condition func(ctx context.Context) (string, error)) {
	t.Helper()
	await.For(t.Context(), t, patience, what, condition)
}

// startHost starts a host that is stopped at the end of the test, at which its log must show no data race.
func startHost(t *testing.T, o testenv.HostOptions) *testenv.Host {
	t.Helper()
	o.Binary = binaries + "/pergola"
	if o.Kubeconfig == "" {
		o.Kubeconfig = hostKubeconfig
	}
	if o.Config == "" {
		o.Config = writeConfig(t, anyConfig)
	}
	host, err := testenv.StartHost(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := host.Stop(ctx); err != nil && !strings.Contains(err.Error(), "signal: killed") {
			t.Error(err)
		}
		if strings.Contains(host.Log(), "DATA RACE") || t.Failed() {
			t.Errorf("log of the host:\n%s", host.Log())
		}
	})
	return host
}

// startReadyHost starts a host and waits until it is ready.
func startReadyHost(t *testing.T, o testenv.HostOptions) *testenv.Host {
	t.Helper()
	host := startHost(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := host.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	return host
}

// newNamespace creates a namespace with a Context, as a Landscaper does.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := "e2e-" + uuid.NewString()[:8]
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	create(t, &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: name}})
	return name
}

// edit changes an object as a user does, whoever else writes it meanwhile.
func edit(t *testing.T, object client.Object, how func()) {
	t.Helper()
	if err := testenv.Change(t.Context(), admin, object, how); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T: %v", object, err)
	}
}

// newItem returns a deploy item as a Landscaper creates it, with its annotations.
func newItem(namespace, name, itemType, config string) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Annotations: map[string]string{
				v1alpha1.DeployerTypeAnnotation:       itemType,
				v1alpha1.DeployerTargetNameAnnotation: v1alpha1.NoTargetName,
			},
		},
		Spec: v1alpha1.DeployItemSpec{Type: v1alpha1.DeployItemType(itemType), Context: v1alpha1.DefaultContextName},
	}
	if config != "" {
		item.Spec.Config = &runtime.RawExtension{Raw: []byte(config)}
	}
	return item
}

func withTarget(item *v1alpha1.DeployItem, target string) *v1alpha1.DeployItem {
	item.Spec.Target = &v1alpha1.ObjectReference{Name: target, Namespace: item.Namespace}
	item.Annotations[v1alpha1.DeployerTargetNameAnnotation] = target
	return item
}

// setJob sets a new job as a Landscaper does, and returns it.
func setJob(t *testing.T, item *v1alpha1.DeployItem) string {
	t.Helper()
	jobID, err := testenv.SetJob(t.Context(), admin, item)
	if err != nil {
		t.Fatal(err)
	}
	return jobID
}

// read reads an item anew.
func read(t *testing.T, item *v1alpha1.DeployItem) *v1alpha1.DeployItem {
	t.Helper()
	fresh := &v1alpha1.DeployItem{}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(item), fresh); err != nil {
		t.Fatalf("read deploy item: %v", err)
	}
	return fresh
}

// waitFor waits until the item meets a condition and returns it.
func waitFor(
	t *testing.T, item *v1alpha1.DeployItem, what string, condition func(*v1alpha1.DeployItem) bool,
) *v1alpha1.DeployItem {
	t.Helper()
	fresh := &v1alpha1.DeployItem{}
	eventually(t, fmt.Sprintf("deploy item %s to be %s", item.Name, what), func(ctx context.Context) (string, error) {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(item), fresh); err != nil {
			return "", err
		}
		if condition(fresh) {
			return "", nil
		}
		return describe(fresh), nil
	})
	return fresh
}

func describe(item *v1alpha1.DeployItem) string { return testenv.Describe(item) }

// waitFinished waits until the job is finished and returns the item.
func waitFinished(t *testing.T, item *v1alpha1.DeployItem, jobID string) *v1alpha1.DeployItem {
	t.Helper()
	return waitFor(t, item, "finished", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobIDFinished == jobID
	})
}

// carryOut creates an item, sets a job and waits until it is finished in the phase.
func carryOut(t *testing.T, item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	t.Helper()
	create(t, item)
	return carryOutAgain(t, item, phase)
}

// carryOutAgain sets a job for an item that exists and waits until it is finished in the phase.
func carryOutAgain(t *testing.T, item *v1alpha1.DeployItem, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	t.Helper()
	finished := waitFinished(t, item, setJob(t, item))
	if finished.Status.Phase != phase {
		t.Fatalf("expected phase %s, but found %s", phase, describe(finished))
	}
	return finished
}

// lines are the lines of a file that may not be there yet.
func lines(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(content)), "\n")
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// missing says that none of the lines begins with a text; "" if one does.
func missing(lines []string, text string) string {
	for _, line := range lines {
		if strings.HasPrefix(line, text) {
			return ""
		}
	}
	return fmt.Sprintf("no line begins with %q in %q", text, lines)
}

// running tells whether a process runs. One that has ended and was not waited for does not.
func running(pid int) bool { return testenv.Running(pid) }

// setDeploymentReady writes the status of a Deployment that is ready, in place of a controller.
func setDeploymentReady(t *testing.T, key client.ObjectKey) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := admin.Get(t.Context(), key, deployment); err != nil {
		t.Fatal(err)
	}
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation,
		Replicas:           1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	if err := admin.Status().Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
}

func marshal(t *testing.T, value any) []byte {
	t.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// pid is the process id of a plugin that a host runs.
func pid(t *testing.T, host *testenv.Host, program string) int {
	t.Helper()
	var found int
	eventually(t, "the plugin "+program+" to run", func(context.Context) (string, error) {
		children, err := host.Children()
		if len(children[program]) != 1 {
			return fmt.Sprintf("children %v", children), err
		}
		found = children[program][0]
		return "", nil
	})
	return found
}

func signal(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// marshaled returns a value of this package as JSON.
func marshaled(value any) []byte {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err) //nolint:forbidigo // objects of texts, numbers and booleans marshal
	}
	return out
}

// createTarget creates a Target for the cluster of the tests, with its kubeconfig in a secret.
func createTarget(t *testing.T, namespace, name string) {
	t.Helper()
	kubeconfig, err := testenv.InlineKubeconfig(controlPlane.Config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	})
	create(t, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.TargetSpec{
			Type:      v1alpha1.KubernetesClusterTargetType,
			SecretRef: &v1alpha1.LocalSecretReference{Name: name, Key: "kubeconfig"},
		},
	})
}

// probeConfig is the configuration of a probe with its trace in the directory, and with files there as fields.
func probeConfig(dir string, files ...string) string {
	fields := object{}
	for _, file := range files {
		fields[file] = dir + "/" + file
	}
	return probeConfigWith(dir, fields)
}

// probeConfigWith is the configuration of a probe with its trace in the directory, and with more fields.
func probeConfigWith(dir string, fields object) string {
	config := object{"apiVersion": "test.pergola.dev/v1", "kind": "Probe", "trace": dir + "/trace"}
	maps.Copy(config, fields)
	return string(marshaled(config))
}

func describeError(err error) string {
	if err == nil {
		return "ready"
	}
	return err.Error()
}
