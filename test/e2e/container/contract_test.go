package container

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

// TestContract: a container is given what Landscaper's images count on, at the places where they look for it.
func TestContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := with(stepConfig("echo-imports"), object{
		"importValues": object{"replicas": 3, "image": object{"tag": "1.2"}},
		"blueprint": object{"inline": object{"filesystem": object{
			"blueprint.yaml": "kind: Blueprint\n", "data": object{"list.yaml": []string{"a", "b"}, "text": "hello"},
		}}},
		"componentDescriptor": object{"inline": object{"meta": object{"schemaVersion": "v2"}, "component": object{"name": "example.org/shop"}}},
	})
	exports := w.succeed("echo", config, onTarget)
	want := object{
		"imports":   object{"replicas": 3.0, "image": object{"tag": "1.2"}},
		"operation": "RECONCILE",
		"descriptor": object{
			"meta":       object{"schemaVersion": "v2"},
			"components": []any{object{"meta": object{"schemaVersion": "v2"}, "component": object{"name": "example.org/shop"}}},
		},
		"content": object{"blueprint.yaml": "kind: Blueprint\n", "data/list.yaml": "- a\n- b\n", "data/text": "hello"},
	}
	target, env := exports["target"], exports["env"].(object)
	delete(exports, "target")
	delete(exports, "env")
	if diff := cmp.Diff(want, exports); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if resolved := target.(object)["target"].(object)["metadata"].(object); resolved["name"] != targetName || resolved["namespace"] != w.namespace {
		t.Errorf("found Target %v", resolved)
	}
	if content := target.(object)["content"].(string); !strings.Contains(content, "kubeconfig") {
		t.Error("the content of the Target is no kubeconfig")
	}
	paths := object{
		"IMPORTS_PATH": "/data/ls/shared/imports/import.json", "EXPORTS_PATH": "/data/ls/shared/exports/values",
		"COMPONENT_DESCRIPTOR_PATH": "/data/ls/shared/component_descriptor.json", "TARGET_PATH": "/data/ls/shared/targets/target.json",
		"CONTENT_PATH": "/data/ls/shared/content", "STATE_PATH": "/data/ls/shared/state", "OPERATION": "RECONCILE", "POD_NAMESPACE": podNamespace,
	}
	delete(env, "POD_NAME")
	if diff := cmp.Diff(paths, env); diff != "" {
		t.Errorf("environment: -want +got:\n%s", diff)
	}
}

// TestState: what a run leaves in its state the next one finds, be it that of another job, of a job that fails, or the last one of all.
func TestState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := 1; n <= 3; n++ {
		if exports := w.succeed("counter", stepConfig("count")); exports["count"] != float64(n) {
			t.Fatalf("run %d: found exports %v", n, exports)
		}
	}
	if reason, message := w.fail("counter", stepConfig("count", "--", "exit", "3")); reason != "ContainerFailed" || !strings.Contains(message, "exit code 3") {
		t.Errorf("found %s: %s", reason, message)
	}
	// More than a Secret can hold.
	if exports := w.succeed("counter", stepConfig("fill-state", "2500000", "--", "count")); exports["count"] != 5.0 {
		t.Errorf("found exports %v", exports)
	}
	if states := w.secrets("counter", "state"); len(states) != 3 {
		t.Errorf("expected three Secrets with the state, but found %v", states)
	}
	if exports := w.succeed("counter", stepConfig("count")); exports["count"] != 6.0 {
		t.Errorf("found exports %v", exports)
	}
}

// TestDelete: the image is run once more before the deploy item goes, and nothing of the item is left then.
func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeed("shop", stepConfig("mark", "--", "count"))
	uid := w.uid("shop")
	w.remove("shop")
	w.awaitGone("shop")
	w.mustHaveRun("shop", "RECONCILE", "DELETE")
	w.mustHaveNothing(uid)
}

func TestDeleteFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.succeed("shop", stepConfig("count"))
	uid := w.uid("shop")
	w.put("shop", stepConfig("mark", "--", "exit", "4"))
	w.await("shop", "failed", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseFailed })
	job := w.remove("shop")
	item := w.finish("shop", job, v1alpha1.DeployItemPhaseDeleteFailed)
	for _, text := range []string{"exit code 4", "container.deployer.landscaper.gardener.cloud/force-cleanup"} {
		if !strings.Contains(item.Status.LastError.Message, text) {
			t.Errorf("expected %q in %q", text, item.Status.LastError.Message)
		}
	}
	w.annotate("shop", "container.deployer.landscaper.gardener.cloud/force-cleanup", "true")
	w.setJob("shop")
	w.awaitGone("shop")
	w.mustHaveRun("shop", "RECONCILE", "DELETE")
	w.mustHaveNothing(uid)
}

// TestFailures: a user is told what has gone wrong, and nothing is left of the Pod.
func TestFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lowMemory := object{"resources": object{"limits": object{"memory": "32Mi"}}}
	for name, c := range map[string]struct {
		reason string
		config object
		change func(*v1alpha1.DeployItem)
		want   string
		says   []string
		not    string
	}{
		"exit": {
			reason: "the last lines say more than a code", config: stepConfig("say", "first", "--", "say", "the", "database", "is", "down", "--", "exit", "7"),
			want: "ContainerFailed", says: []string{"exit code 7", "first\nthe database is down"},
		},
		"secret": {
			reason: "logs are no place for a password",
			config: with(stepConfig("say", "cannot log in with hunter2-and-more", "--", "exit", "1"), object{"importValues": object{"password": "hunter2-and-more"}}),
			want:   "ContainerFailed", says: []string{"cannot log in with ***"}, not: "hunter2",
		},
		"huge output": {
			reason: "its end is enough", config: stepConfig("print", "20000000", "--", "exit", "1"),
			want: "ContainerFailed", says: []string{"exit code 1"},
		},
		"out of memory": {
			reason: "a code alone would be no help", config: with(stepConfig("oom"), lowMemory),
			want: "OutOfMemory", says: []string{"resources.limits.memory"},
		},
		"image missing": {
			reason: "the image is named", config: with(stepConfig(), object{"image": "127.0.0.1:1/nothing/there:1"}),
			want: "ImagePullFailed", says: []string{"127.0.0.1:1/nothing/there:1"},
		},
		"image name": {
			reason: "nobody waits for it", config: with(stepConfig(), object{"image": "no image!"}),
			want: "ImagePullFailed", says: []string{"InvalidImageName"},
		},
		"cannot start": {
			reason: "there is no such program", config: with(stepConfig(), object{"command": []string{"/no/such/program"}}),
			want: "ContainerCannotStart", says: []string{"container main", "/no/such/program"},
		},
		"exports no object": {
			reason: "nobody could use them", config: stepConfig("export", `["secret-thing"]`),
			want: "ExportsInvalid", says: []string{"EXPORTS_PATH", "expected one as JSON or YAML"}, not: "secret-thing",
		},
		"exports a link": {
			reason: "the token of another container is none of its business", config: stepConfig("symlink-exports", "/data/ls/internal/access/token"),
			want: "OutputRefused", says: []string{"exports"},
		},
		"state a link": {
			reason: "there are none in Landscaper either", config: stepConfig("symlink-state", "/data/ls/internal/access"),
			want: "OutputRefused", says: []string{"state"},
		},
		"state too large": {
			reason: "somebody must decide what to keep", config: stepConfig("fill-state", "11000000"),
			want: "OutputRefused", says: []string{"state", "10485760 are allowed"},
		},
		"timeout": {
			reason: "a Pod does not go on for ever", config: stepConfig("say", "started", "--", "hang"), change: timeout("30s"),
			want: "DeadlineExceeded", says: []string{"timeout"},
		},
		"timeout of a gentle one": {
			reason: "it has ended well, but with nothing done", config: stepConfig("hang-gently"), change: timeout("30s"),
			want: "DeadlineExceeded", says: []string{"timeout"},
		},
		"rejected": {
			reason: "the API server finds it wrong", config: with(stepConfig(), object{"resources": object{
				"requests": object{"memory": "2Gi"}, "limits": object{"memory": "1Gi"},
			}}),
			want: "ObjectRejected", says: []string{"memory"},
		},
		"account": {
			reason: "others would lend their rights", config: with(stepConfig(), object{"serviceAccountName": "container"}),
			want: "ValidateProviderConfiguration", says: []string{"serviceAccountName", "the operator allows chosen"},
		},
		"reference": {
			reason: "there is no resolver", config: with(stepConfig(), object{"blueprint": object{"ref": object{"resourceName": "blueprint"}}}),
			want: "ValidateProviderConfiguration", says: []string{"blueprint.ref", "give it inline"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			item := strings.ReplaceAll(name, " ", "-")
			change := c.change
			if change == nil {
				change = func(*v1alpha1.DeployItem) {}
			}
			reason, message := w.fail(item, c.config, change)
			if reason != c.want {
				t.Errorf("%s: expected %s, but found %s: %s", c.reason, c.want, reason, message)
			}
			for _, text := range c.says {
				if !strings.Contains(message, text) {
					t.Errorf("%s: expected %q in %q", c.reason, text, message)
				}
			}
			found, err := w.find(item)
			if err != nil {
				t.Fatal(err)
			}
			if c.not != "" && strings.Contains(string(w.marshal(found.Status)), c.not) {
				t.Errorf("%s: found it in the status", c.reason)
			}
			w.mustHaveOnly(w.uid(item), "result", "state")
		})
	}
}

// TestStatus: the provider status says what Landscaper's does.
func TestStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	job := w.put("shop", stepConfig("exit", "5"))
	status := w.status(w.finish("shop", job, v1alpha1.DeployItemPhaseFailed))
	main := status.PodStatus.ContainerStatus
	if status.LastOperation != "RECONCILE" || main.ExitCode == nil || *main.ExitCode != 5 || main.Reason != "Error" || main.State.Terminated == nil ||
		!strings.HasPrefix(main.Image, stepImage) || status.PodStatus.LastSuccessfulJobID != "" || status.PodStatus.LastRun.IsZero() {
		t.Errorf("found %s", w.marshal(status))
	}
	job = w.put("shop", stepConfig("say", "fine"))
	status = w.status(w.finish("shop", job, v1alpha1.DeployItemPhaseSucceeded))
	if status.PodStatus.LastSuccessfulJobID != job || status.PodStatus.InitContainerStatus.State.Terminated == nil {
		t.Errorf("found %s", w.marshal(status))
	}
	running := w.put("shop", stepConfig("hang"))
	w.awaitRunning("shop", running)
	w.annotate("shop", v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	w.finish("shop", running, v1alpha1.DeployItemPhaseFailed)
}

// TestPrivateRegistry: the credentials for an image come from Secrets of the deploy item's namespace, by its Context or by name.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry, err := node.StartRegistry(t.Context(), "private/step:1", "./test/images/step")
	if err != nil {
		t.Fatal(err)
	}
	config := with(stepConfig("export", `{"a":1}`), object{"image": registry.Image})
	if reason, message := w.fail("refused", config); reason != "ImagePullFailed" {
		t.Errorf("without credentials: found %s: %s", reason, message)
	}
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "puller", Namespace: w.namespace}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: chartserver.DockerConfig(registry.Host, registry.User, registry.Password)},
	})
	named := with(config, object{"registryPullSecrets": []object{{"name": "puller", "namespace": w.namespace}}})
	if exports := w.succeed("named", named); exports["a"] != 1.0 {
		t.Errorf("with a named Secret: found exports %v", exports)
	}
	foreign := with(config, object{"registryPullSecrets": []object{{"name": "puller", "namespace": "kube-system"}}})
	if reason, message := w.fail("foreign", foreign); reason != "RegistryPullSecretInvalid" || !strings.Contains(message, "kube-system") {
		t.Errorf("with a Secret of another namespace: found %s: %s", reason, message)
	}
	w.create(&v1alpha1.Context{
		ObjectMeta: metav1.ObjectMeta{Name: "private", Namespace: w.namespace},
		ContextConfiguration: v1alpha1.ContextConfiguration{
			RegistryPullSecrets: []v1alpha1.LocalObjectReference{{Name: "puller"}},
		},
	})
	if exports := w.succeed("context", config, func(i *v1alpha1.DeployItem) { i.Spec.Context = "private" }); exports["a"] != 1.0 {
		t.Errorf("with the credentials of the Context: found exports %v", exports)
	}
}

// TestRunOnTarget: nothing is created on the host cluster then, and the granted ServiceAccount is not used.
func TestRunOnTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := with(stepConfig("count"), object{"runOnTarget": object{"namespace": w.namespace}})
	for n := 1; n <= 2; n++ {
		if exports := w.succeed("shop", config, onTarget); exports["count"] != float64(n) {
			t.Fatalf("run %d: found exports %v", n, exports)
		}
	}
	uid := w.uid("shop")
	if all := w.objects(uid); len(all) == 0 {
		t.Error("expected the state to be kept on the target")
	}
	for _, o := range w.objects(uid) {
		if o.GetNamespace() != w.namespace {
			t.Errorf("found %s/%s", o.GetNamespace(), o.GetName())
		}
	}
	w.remove("shop")
	w.awaitGone("shop")
	w.mustHaveNothing(uid)
}

// status reads the provider status of an item.
func (w *world) status(item *v1alpha1.DeployItem) *containerv1alpha1.ProviderStatus {
	w.Helper()
	status := &containerv1alpha1.ProviderStatus{}
	if err := unmarshal(item.Status.ProviderStatus.Raw, status); err != nil {
		w.Fatal(err)
	}
	return status
}

func (w *world) uid(name string) string {
	w.Helper()
	item, err := w.find(name)
	if err != nil {
		w.Fatal(err)
	}
	if item.UID == "" {
		w.Fatal(fmt.Errorf("deploy item %s has no UID", name))
	}
	return string(item.UID)
}
