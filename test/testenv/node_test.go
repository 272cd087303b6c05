package testenv_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	stepImage = "localhost/step:1"
	// startTimeout is how long a part of the node may take to come up, on a machine that is busy with something else.
	startTimeout = 5 * time.Minute
)

// TestNode shows what tests rely on that run containers of their own on a node.
func TestNode(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	t.Cleanup(cancel)
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
	if err := node.Image(ctx, stepImage, "./test/images/step"); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(node.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Pods", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *stage){
			"Steps end":            stepsEnd,
			"Credentials are used": credentialsAreUsed,
			"Registry is private":  registryIsPrivate,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newStage(t, node, client))
			})
		}
	})
	// The others need the kubelet.
	t.Run("Kubelet is killed", func(t *testing.T) { kubeletIsKilled(t, newStage(t, node, client)) })
}

// What a step says, exports and ends with reaches the pod's log and its status.
func stepsEnd(t *testing.T, s *stage) {
	for _, test := range []struct {
		reason  string
		args    []string
		change  func(*corev1.PodSpec)
		stop    bool // once it hangs
		code    int32
		log     string
		exports string
	}{
		{reason: "actions follow one another", args: []string{"say", "hello", "--", "exit", "3"}, code: 3, log: "hello\n"},
		{reason: "an action is unknown", args: []string{"dance"}, code: 2, log: "step: unknown action \"dance\"\n"},
		{reason: "there are exports", args: []string{"export", `{"a":1}`}, exports: `{"a":1}`},
		{reason: "there is a state", args: []string{"fill-state", "1000", "--", "count", "--", "count"}, exports: `{"count":2}`},
		{reason: "there is much to print", args: []string{"print", "800000"}, log: strings.Repeat(strings.Repeat("0123456789", 8)[:79]+"\n", 10_000)},
		{reason: "there is too little memory", args: []string{"oom"}, change: withLittleMemory, code: 137},
		{reason: "SIGTERM ends what hangs", args: []string{"hang"}, stop: true, code: 143, log: "hanging\nterminated\n"},
		{reason: "SIGTERM does not end what hangs hard", args: []string{"hang-hard"}, change: withLittleGrace, stop: true, code: 137, log: "hanging\n"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			name := s.run(t, test.change, test.args...)
			if test.stop {
				s.stop(t, name)
			}
			ended := s.awaitEnd(t, name)
			if ended.ExitCode != test.code {
				t.Errorf("expected code %d, but found %d", test.code, ended.ExitCode)
			}
			if ended.Message != test.exports {
				t.Errorf("expected exports %q, but found %q", test.exports, ended.Message)
			}
			if log := s.log(t, name); log != test.log {
				t.Errorf("expected %d bytes %.100q, but found %d %.100q", len(test.log), test.log, len(log), log)
			}
		})
	}
}

func withLittleGrace(spec *corev1.PodSpec) { spec.TerminationGracePeriodSeconds = new(int64(1)) }

func withLittleMemory(spec *corev1.PodSpec) {
	spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
}

// The search for credentials finds and uses those that are there, and reaches the API server without them.
func credentialsAreUsed(t *testing.T, s *stage) {
	_, err := s.client.RbacV1().RoleBindings(s.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "default"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "default"}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := "/api/v1/namespaces/" + s.namespace
	for _, test := range []struct {
		reason  string
		mounted bool
		read    []string // with the token
		refused []string
	}{
		{
			reason: "there is a token", mounted: true, read: []string{own + "/configmaps", own + "/pods"},
			refused: []string{"nobody: /api/v1/secrets: 403", "nobody: " + own + "/pods: 403"},
		},
		{reason: "there is none", refused: []string{"nobody: /api/v1/secrets: 403", "nobody: " + own + "/pods: 403"}},
	} {
		t.Run(test.reason, func(t *testing.T) {
			t.Parallel()
			ended := s.awaitEnd(t, s.run(t, func(spec *corev1.PodSpec) { spec.AutomountServiceAccountToken = &test.mounted }, "touch-credentials"))
			var got struct{ Tokens, Read, Refused []string }
			if err := json.Unmarshal([]byte(ended.Message), &got); err != nil {
				t.Fatalf("exports %q: %v", ended.Message, err)
			}
			if found := len(got.Tokens) == 1 && strings.HasSuffix(got.Tokens[0], "/token"); found != test.mounted || len(got.Tokens) > 1 {
				t.Errorf("expected a token %t, but found %q", test.mounted, got.Tokens)
			}
			var read []string
			for _, path := range test.read {
				read = append(read, got.Tokens[0]+": "+path)
			}
			if !slices.Equal(got.Read, read) {
				t.Errorf("expected to read %q, but read %q", read, got.Read)
			}
			for _, request := range test.refused {
				if !slices.Contains(got.Refused, request) {
					t.Errorf("expected %q, but found %q", request, got.Refused)
				}
			}
		})
	}
}

// The node pulls from a private registry with the credentials of a pod's imagePullSecrets, and not without.
func registryIsPrivate(t *testing.T, s *stage) {
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	registry, err := s.node.StartRegistry(ctx, "private/step:1", "./test/images/step")
	if err != nil {
		t.Fatal(err)
	}
	for name, password := range map[string]string{"right": registry.Password, "wrong": "guess"} {
		_, err := s.client.CoreV1().Secrets(s.namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: chartserver.DockerConfig(registry.Host, registry.User, password)},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		reason  string
		secrets []corev1.LocalObjectReference
		pulled  bool
	}{
		{reason: "there is no secret"},
		{reason: "the secret is wrong", secrets: []corev1.LocalObjectReference{{Name: "wrong"}}},
		{reason: "the secret is right", secrets: []corev1.LocalObjectReference{{Name: "right"}}, pulled: true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			name := s.run(t, func(spec *corev1.PodSpec) {
				spec.Containers[0].Image, spec.Containers[0].ImagePullPolicy = registry.Image, corev1.PullAlways
				spec.ImagePullSecrets = test.secrets
			}, "exit", "4")
			if !test.pulled {
				s.await(t, name, "to be refused its image", func(c corev1.ContainerStatus) bool {
					return c.State.Waiting != nil && strings.Contains(c.State.Waiting.Message, "401 Unauthorized")
				})
				return
			}
			if ended := s.awaitEnd(t, name); ended.ExitCode != 4 {
				t.Errorf("expected code 4, but found %d", ended.ExitCode)
			}
		})
	}
}

// Without the kubelet a container goes on and ends, which the kubelet notices that comes after it, and that one runs new pods.
func kubeletIsKilled(t *testing.T, s *stage) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	shared := func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{
			Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}},
		})
		c := &spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "shared", MountPath: "/shared"})
		c.Env = append(c.Env, corev1.EnvVar{Name: "MARK_DIR", Value: "/shared"})
	}
	name := s.run(t, shared, "await", "/shared/go", "--", "mark", "--", "exit", "5")
	s.await(t, name, "to run", func(c corev1.ContainerStatus) bool { return c.State.Running != nil })

	for range 2 { // the second time nothing is left to kill
		if err := s.node.KillKubelet(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.askKubelet(t); err == nil {
		t.Error("expected no answer from a kubelet that was killed")
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the container to go on", func(context.Context) (string, error) {
		marks, err := os.ReadFile(filepath.Join(dir, "marks"))
		if errors.Is(err, fs.ErrNotExist) {
			return "there is no mark", nil
		}
		if string(marks) == "" {
			return "the mark is empty", nil
		}
		return "", err
	})
	later := s.run(t, nil, "say", "hello")

	for range 2 { // the second time it runs
		if err := s.node.StartKubelet(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.askKubelet(t); err != nil {
			t.Error(err)
		}
	}
	if ended := s.awaitEnd(t, name); ended.ExitCode != 5 {
		t.Errorf("expected code 5, but found %d", ended.ExitCode)
	}
	if ended := s.awaitEnd(t, later); ended.ExitCode != 0 {
		t.Errorf("expected a pod to succeed that came while there was no kubelet, but found code %d", ended.ExitCode)
	}
}
