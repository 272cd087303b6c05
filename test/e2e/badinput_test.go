package e2e

import (
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

func TestBadInput(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest", "mock")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "good")
	inline := func(name, content string) {
		create(t, &v1alpha1.Target{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Spec: v1alpha1.TargetSpec{
				Type:          v1alpha1.KubernetesClusterTargetType,
				Configuration: &runtime.RawExtension{Raw: []byte(content)},
			},
		})
	}
	inline("unparsable", `{"kubeconfig":"{ this is no kubeconfig"}`)
	inline("exec", `{"kubeconfig":{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"users":[{"name":"u","user":{"exec":{"command":"/bin/true"}}}]}}`)

	good := manifestConfig(configMap(namespace, "good", "x"))
	cases := map[string]struct {
		reason   string
		item     *v1alpha1.DeployItem
		code     v1alpha1.ErrorCode
		mentions []string
	}{
		"unknown-field": {
			reason:   "an unknown field is an error that names its path",
			item:     withTarget(newItem(namespace, "unknown-field", manifestType, strings.Replace(good, `"policy"`, `"polizy"`, 1)), "good"),
			code:     v1alpha1.ErrorConfigurationProblem,
			mentions: []string{"manifests[0].polizy"},
		},
		"wrong-type": {
			reason:   "a value of the wrong type is an error that names its field",
			item:     withTarget(newItem(namespace, "wrong-type", manifestType, strings.Replace(good, `"manage"`, `7`, 1)), "good"),
			code:     v1alpha1.ErrorConfigurationProblem,
			mentions: []string{"manifests[0].policy: expected a text, but found a number"},
		},
		"missing-config": {
			reason:   "an item without a configuration fails at once",
			item:     withTarget(newItem(namespace, "missing-config", manifestType, ""), "good"),
			code:     v1alpha1.ErrorConfigurationProblem,
			mentions: []string{"spec.config"},
		},
		"missing-target": {
			reason:   "the Target's name is in the error",
			item:     withTarget(newItem(namespace, "missing-target", manifestType, good), "nowhere"),
			mentions: []string{"nowhere"},
		},
		"unparsable-target": {
			reason:   "a Target that cannot be read is a configuration problem",
			item:     withTarget(newItem(namespace, "unparsable-target", manifestType, good), "unparsable"),
			code:     v1alpha1.ErrorConfigurationProblem,
			mentions: []string{"unparsable"},
		},
		"exec-target": {
			reason:   "a kubeconfig that runs commands reaches no plugin",
			item:     withTarget(newItem(namespace, "exec-target", manifestType, good), "exec"),
			code:     v1alpha1.ErrorConfigurationProblem,
			mentions: []string{"exec"},
		},
		"mock-unknown-field": {
			reason:   "the mock deployer decodes strictly, too",
			item:     newItem(namespace, "mock-unknown-field", mockType, strings.Replace(mockSucceeds, `"kind"`, `"fase":"Failed","kind"`, 1)),
			code:     v1alpha1.ErrorConfigurationProblem,
			mentions: []string{"fase"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := carryOut(t, tc.item, v1alpha1.DeployItemPhaseFailed)
			lastError := item.Status.LastError
			if lastError == nil || lastError.Reason == "" {
				t.Fatalf("%s: there is no last error with a reason", tc.reason)
			}
			if tc.code != "" && (len(lastError.Codes) == 0 || lastError.Codes[0] != tc.code) {
				t.Errorf("%s: expected code %s, but found %v", tc.reason, tc.code, lastError.Codes)
			}
			for _, mention := range tc.mentions {
				if !strings.Contains(lastError.Message, mention) {
					t.Errorf("%s: expected the message to name %q, but found %q", tc.reason, mention, lastError.Message)
				}
			}
		})
	}
	t.Run("others go on", func(t *testing.T) {
		carryOut(t, withTarget(newItem(namespace, "good", manifestType, good), "good"), v1alpha1.DeployItemPhaseSucceeded)
	})
}

// door is a way to the API server that can be shut.
type door struct {
	address string
	mu      sync.Mutex
	open    bool
}

// newDoor listens on loopback and passes connections on to the API server while it is open.
func newDoor(t *testing.T) *door {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{address: listener.Addr().String()}
	server, err := url.Parse(controlPlane.Config.Host)
	if err != nil || server.Host == "" {
		server = &url.URL{Host: controlPlane.Config.Host}
	}
	var connections sync.WaitGroup
	connections.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { d.pass(t.Context(), in, server.Host) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		connections.Wait()
	})
	return d
}

func (d *door) pass(ctx context.Context, in net.Conn, server string) {
	defer in.Close()
	d.mu.Lock()
	open := d.open
	d.mu.Unlock()
	if !open {
		return
	}
	out, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { in.Close(); out.Close() })
	defer stop()
	go func() {
		_, _ = io.Copy(out, in)
		out.Close()
	}()
	_, _ = io.Copy(in, out)
}

func (d *door) set(open bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = open
}

func TestUnreachableTarget(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	d := newDoor(t)
	config := rest.CopyConfig(controlPlane.Config)
	config.Host = "https://" + d.address
	kubeconfig, err := testenv.InlineKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "away", Namespace: namespace}, Data: map[string][]byte{"kubeconfig": kubeconfig}})
	create(t, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: "away", Namespace: namespace},
		Spec: v1alpha1.TargetSpec{
			Type: v1alpha1.KubernetesClusterTargetType, SecretRef: &v1alpha1.LocalSecretReference{Name: "away", Key: "kubeconfig"},
		},
	})
	item := withTarget(newItem(namespace, "item", manifestType, manifestConfig(configMap(namespace, "far", "x"))), "away")
	create(t, item)
	jobID := setJob(t, item)

	waiting := waitFor(t, item, "in progress with an error", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing && i.Status.LastError != nil
	})
	if !strings.Contains(waiting.Status.LastError.Message, d.address) {
		t.Errorf("the error does not say what cannot be reached: %q", waiting.Status.LastError.Message)
	}
	d.set(true)
	if item = waitFinished(t, item, jobID); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected success once the target is back, but found %s", describe(item))
	}
}

func TestForeignTypeIsNotTouched(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock")})
	namespace := newNamespace(t)
	annotated := newItem(namespace, "annotated", "example.org/nobody-serves-this", mockSucceeds)
	bare := newItem(namespace, "bare", "example.org/nobody-serves-this", mockSucceeds)
	bare.Annotations = nil
	create(t, annotated)
	create(t, bare)

	// An item that comes later and is finished shows that the host has seen the others.
	last := newItem(namespace, "last", mockType, mockSucceeds)
	last.Annotations = nil
	create(t, last)
	setJob(t, last)
	waitFor(t, last, "finished", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded })

	for _, item := range []*v1alpha1.DeployItem{annotated, bare} {
		if fresh := read(t, item); fresh.ResourceVersion != item.ResourceVersion {
			t.Errorf("item %q of a type that nobody serves was written: %s", client.ObjectKeyFromObject(item), describe(fresh))
		}
	}
}

// TestUnservedTypeIsTold: without a Landscaper nobody else serves the type, and the item says so to whoever looks at
// it.
func TestUnservedTypeIsTold(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock"), Standalone: true})
	item := newItem(newNamespace(t), "item", "example.org/nobody-serves-this", mockSucceeds)
	create(t, item)
	const want = `no plugin here serves type "example.org/nobody-serves-this"; served are "` + mockType + `"`
	waitFor(t, item, "said to be of a type that nobody serves", func(i *v1alpha1.DeployItem) bool {
		c := conditionOf(i, "Served")
		return c.Status == v1alpha1.ConditionFalse && c.Message == want
	})
	where := []string{"item", "-n", item.Namespace, "--kubeconfig", controlPlane.Kubeconfig}
	pergola(t, append([]string{"items", "trigger"}, where...)...).expect(t, 1, want)
	if shown := pergola(t, append([]string{"items", "show"}, where...)...).stdout; !strings.Contains(shown, want) {
		t.Errorf("expected %q, but it shows:\n%s", want, shown)
	}
}
