package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/chartserver"
)

// stepConfig is a provider configuration that runs the image of the tests with these arguments.
func stepConfig(args ...string) object {
	return object{
		"apiVersion": containerv1alpha1.GroupVersion.String(), "kind": containerv1alpha1.ProviderConfigurationKind,
		"image": stepImage, "args": args,
	}
}

// with returns a configuration with more fields.
func with(config object, more object) object {
	config = maps.Clone(config)
	maps.Copy(config, more)
	return config
}

// A container is given what Landscaper's images count on, at the places where they look for it.
func containerContract(w *world) {
	component := object{"meta": object{"schemaVersion": "v2"}, "component": object{"name": "example.org/shop"}}
	exports := w.succeed("echo", with(stepConfig("echo-imports"), object{
		"importValues": object{"replicas": 3, "image": object{"tag": "1.2"}},
		"blueprint": object{"inline": object{"filesystem": object{
			"blueprint.yaml": "kind: Blueprint\n", "data": object{"list.yaml": []string{"a", "b"}, "text": "hello"},
		}}},
		"componentDescriptor": object{"inline": component},
	}))
	target, env := exports["target"].(object), exports["env"].(object)
	delete(exports, "target")
	delete(env, "POD_NAME")
	want := object{
		"imports":   object{"replicas": 3.0, "image": object{"tag": "1.2"}},
		"operation": "RECONCILE",
		"descriptor": object{
			"meta":       object{"schemaVersion": "v2"},
			"components": []any{component},
		},
		"content": object{"blueprint.yaml": "kind: Blueprint\n", "data/list.yaml": "- a\n- b\n", "data/text": "hello"},
		"env": object{
			"IMPORTS_PATH": "/data/ls/shared/imports/import.json", "EXPORTS_PATH": "/data/ls/shared/exports/values",
			"COMPONENT_DESCRIPTOR_PATH": "/data/ls/shared/component_descriptor.json",
			"TARGET_PATH":               "/data/ls/shared/targets/target.json",
			"CONTENT_PATH":              "/data/ls/shared/content", "STATE_PATH": "/data/ls/shared/state",
			"OPERATION": "RECONCILE", "POD_NAMESPACE": podNamespace,
		},
	}
	if diff := cmp.Diff(want, exports); diff != "" {
		w.Errorf("-want +got:\n%s", diff)
	}
	meta := target["target"].(object)["metadata"].(object)
	if meta["name"] != w.target || meta["namespace"] != w.namespace {
		w.Errorf("found Target %v", meta)
	}
	if !strings.Contains(target["content"].(string), "kubeconfig") {
		w.Error("the content of the Target is no kubeconfig")
	}
}

// What a run leaves in its state the next one finds, be it a job that takes the place of another one, is aborted or
// fails. A Pod that another job comes for has ended before the next one begins.
func containerState(w *world) {
	mustCount := func(want float64, config object) {
		w.Helper()
		if exports := w.succeed("counter", config); exports["count"] != want {
			w.Fatalf("expected the count %v, but found exports %v", want, exports)
		}
	}
	mustCount(1, stepConfig("count"))
	w.put("counter", stepConfig("count", "--", "mark", "--", "hang"))
	w.awaitRuns("counter", 1)
	job := w.put("counter", stepConfig("count", "--", "mark", "--", "hang"))
	if runs := w.awaitRuns("counter", 2); runs[0].pod == runs[1].pod {
		w.Errorf("expected a run in each of two Pods, but found %v", runs)
	}
	w.annotate("counter", v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	w.finish("counter", job, failed)
	w.mustHaveOnly(w.uid("counter"), "result", "state")
	mustCount(4, stepConfig("fill-state", "2500000", "--", "count")) // more than a Secret can hold
	if states := w.secrets("counter", "state"); len(states) != 3 {
		w.Errorf("expected three Secrets with the state, but found %v", states)
	}
	reason, message := w.fail("counter", stepConfig("count", "--", "exit", "3"))
	if reason != "ContainerFailed" || !strings.Contains(message, "exit code 3") {
		w.Errorf("found %s: %s", reason, message)
	}
	mustCount(6, stepConfig("count"))
}

// A user is told what has gone wrong on the node, and nothing is left of the Pod.
func containerFailures(w *world) {
	for name, c := range map[string]struct {
		reason string
		config object
		want   string
		says   []string
	}{
		"exit": {
			reason: "the last lines say more than a code",
			config: stepConfig("say", "first", "--", "say", "the database is down", "--", "exit", "7"),
			want:   "ContainerFailed", says: []string{"exit code 7", "first\nthe database is down"},
		},
		"memory": {
			reason: "a code alone would be no help",
			config: with(stepConfig("oom"), object{"resources": object{"limits": object{"memory": "32Mi"}}}),
			want:   "OutOfMemory", says: []string{"resources.limits.memory"},
		},
		"image": {
			reason: "the image is named", config: with(stepConfig(), object{"image": "127.0.0.1:1/nothing/there:1"}),
			want: "ImagePullFailed", says: []string{"127.0.0.1:1/nothing/there:1"},
		},
		"start": {
			reason: "there is no such program", config: with(stepConfig(), object{"command": []string{"/no/such/program"}}),
			want: "ContainerCannotStart", says: []string{"container main", "/no/such/program"},
		},
		"link": {
			reason: "the token of another container is none of its business",
			config: stepConfig("symlink-exports", "/data/ls/internal/access/token"),
			want:   "OutputRefused", says: []string{"exports"},
		},
		"time": {
			reason: "a Pod does not go on for ever", config: stepConfig("hang"),
			want: "DeadlineExceeded", says: []string{"timeout"},
		},
	} {
		w.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			change := timeout("")
			if name == "time" {
				change = timeout("90s") // a fifth of it is for the Pod to stop, which a loaded node takes seconds for
			}
			reason, message := w.fail(name, c.config, change)
			if reason != c.want {
				t.Errorf("%s: expected %s, but found %s: %s", c.reason, c.want, reason, message)
			}
			for _, text := range c.says {
				if !strings.Contains(message, text) {
					t.Errorf("%s: expected %q in %q", c.reason, text, message)
				}
			}
			w.mustHaveOnly(w.uid(name), "result", "state")
		})
	}
}

// The credentials for an image come from a Secret of the item's namespace, which its Context names.
func containerRegistry(w *world) {
	const user, password = "puller", "not-for-everybody"
	image := w.serveImage("private/step:1", user, password)
	config := with(stepConfig("export", `{"a":1}`), object{"image": image})
	if reason, message := w.fail("refused", config); reason != "ImagePullFailed" {
		w.Errorf("without credentials: found %s: %s", reason, message)
	}
	registry, _, _ := strings.Cut(image, "/")
	login := chartserver.DockerConfig(registry, user, password)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "puller", Namespace: w.namespace}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: login},
	})
	w.create(&v1alpha1.Context{
		ObjectMeta: metav1.ObjectMeta{Name: "private", Namespace: w.namespace},
		ContextConfiguration: v1alpha1.ContextConfiguration{
			RegistryPullSecrets: []v1alpha1.LocalObjectReference{{Name: "puller"}},
		},
	})
	inContext := func(i *v1alpha1.DeployItem) { i.Spec.Context = "private" }
	if exports := w.succeed("context", config, inContext); exports["a"] != 1.0 {
		w.Errorf("with the credentials of the Context: found exports %v", exports)
	}
}

// serveImage runs a private registry on the node, which nobody else reaches, and returns the reference of the image
// that it has. The node does not have that image unless it pulls it. The registry ends with the node.
func (w *world) serveImage(name, user, password string) (reference string) {
	w.Helper()
	w.create(&corev1.Pod{ObjectMeta: w.meta("registry"), Spec: corev1.PodSpec{
		HostNetwork: true, // where the node's container runtime is, for which 127.0.0.1 is the same
		Containers: []corev1.Container{{
			Name: "registry", Image: stepImage, ImagePullPolicy: corev1.PullNever,
			Args: []string{"serve-image", name, user, password},
		}},
	}})
	w.eventually("the registry to print the reference of its image", func(ctx context.Context) (string, error) {
		said, _ := run(ctx, "kubectl", "logs", "registry", "-n", w.namespace) // none before its container runs
		line, _, whole := strings.Cut(said, "\n")
		if reference = line; !whole {
			return fmt.Sprintf("it says %q", said), nil
		}
		return "", nil
	})
	return reference
}

// Everything of the item is on the target then, and it goes with the item.
func containerOnTarget(w *world) {
	w.succeed("shop", with(stepConfig("count"), object{"runOnTarget": object{"namespace": w.namespace}}))
	uid := w.uid("shop")
	all := w.objects(uid)
	if len(all) == 0 {
		w.Error("expected the state to be kept on the target")
	}
	for _, o := range all {
		if o.GetNamespace() != w.namespace {
			w.Errorf("found %s/%s", o.GetNamespace(), o.GetName())
		}
	}
	w.remove("shop")
	w.awaitGone("shop")
	w.mustHaveOnly(uid)
}

// running tells whether main runs.
func running(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil
	})
}

// TestContainerBesideMain: what others run beside main does not hold up the job, whose exports and state are kept.
func TestContainerBesideMain(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := newWorld(t)
	w.startHost(w.hostWith(nil, object{"podTemplate": object{"spec": object{"containers": []object{
		{"name": "main"},
		{"name": "proxy", "image": stepImage, "imagePullPolicy": "IfNotPresent", "args": []string{"hang"}},
	}}}}))
	for count := 1.0; count <= 2; count++ {
		exports := w.succeed("counter", with(stepConfig("count"), object{"importValues": object{"n": count}}))
		if exports["count"] != count {
			t.Errorf("expected the count %v, but found %v", count, exports)
		}
	}
}
