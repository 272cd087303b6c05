package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// gate stands before the API server of a target. While it is shut it accepts connections and never answers.
type gate struct {
	listener net.Listener
	behind   string
	serving  sync.WaitGroup

	mu    sync.Mutex
	open  bool
	conns map[net.Conn]struct{}
}

// newGate returns a gate that is shut, before the API server of the tests.
func newGate(t *testing.T) *gate {
	t.Helper()
	server, err := url.Parse(controlPlane.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{listener: listen(t, "tcp", "127.0.0.1:0"), behind: server.Host, conns: map[net.Conn]struct{}{}}
	g.serving.Go(g.serve)
	t.Cleanup(g.tearDown)
	return g
}

// host is the address of the API server behind the gate.
func (g *gate) host() string { return "https://" + g.listener.Addr().String() }

func (g *gate) serve() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return // torn down
		}
		g.mu.Lock()
		g.conns[conn] = struct{}{}
		if g.open {
			g.serving.Go(func() { g.pass(conn) })
		}
		g.mu.Unlock()
	}
}

// pass connects a connection with the API server until one of them is closed.
func (g *gate) pass(front net.Conn) {
	defer func() { _ = front.Close() }()
	back, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", g.behind) // this machine answers at once
	if err != nil {
		return
	}
	defer func() { _ = back.Close() }()
	ended := make(chan struct{}, 2)
	for _, direction := range [][2]net.Conn{{front, back}, {back, front}} {
		g.serving.Go(func() {
			_, _ = io.Copy(direction[0], direction[1])
			ended <- struct{}{}
		})
	}
	<-ended
}

// set opens or shuts the gate for connections to come. Those that there are end.
func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = open
	for conn := range g.conns {
		_ = conn.Close()
	}
	clear(g.conns)
}

// tearDown lets nobody reach the API server any more. It may be called several times.
func (g *gate) tearDown() {
	_ = g.listener.Close()
	g.set(false)
	g.serving.Wait()
}

// createTargetAt creates a Target for the cluster of the tests under another address.
func createTargetAt(t *testing.T, namespace, name, host string) {
	t.Helper()
	config := rest.CopyConfig(controlPlane.Config)
	config.Host = host
	kubeconfig, err := testenv.InlineKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create(t, &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1alpha1.TargetSpec{
			Type:          v1alpha1.KubernetesClusterTargetType,
			Configuration: &runtime.RawExtension{Raw: marshal(t, map[string]string{"kubeconfig": string(kubeconfig)})},
		},
	})
}

// TestTargetThatHangs: the items of a target that accepts connections and never answers do not keep workers from those of others.
func TestTargetThatHangs(t *testing.T) {
	const hangingItems, healthyItems, workers = 60, 20, 4
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Config: workersConfig(t, workers)})
	namespace, g := newNamespace(t), newGate(t)
	createTarget(t, namespace, "healthy")
	createTargetAt(t, namespace, "hanging", g.host())
	newItems := func(target string, n int) (items []*v1alpha1.DeployItem) {
		for i := range n {
			name := fmt.Sprintf("%s-%02d", target, i)
			item := withTarget(newItem(namespace, name, manifestType, manifestConfig(configMap(namespace, name, "x"))), target)
			item.Spec.Timeout = "30m"
			items = append(items, item)
		}
		forEach(t, items, func(ctx context.Context, item *v1alpha1.DeployItem) error { return admin.Create(ctx, item) })
		return items
	}
	began := time.Now()
	hanging := newItems("hanging", hangingItems)
	for _, item := range hanging {
		setJob(t, item)
	}
	waitFor(t, hanging[0], "under way", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing })

	healthy := newItems("healthy", healthyItems)
	for _, item := range healthy {
		setJob(t, item)
	}
	mustAllSucceed(t, healthy)
	t.Logf("%d items of the healthy target are finished %s after those of the other began", healthyItems, time.Since(began).Round(time.Second))
	for _, item := range hanging {
		if item = read(t, item); item.Status.JobIDFinished == item.Status.JobID {
			t.Errorf("an item of the target that hangs is finished: %s", describe(item))
		}
	}
	mustMention(t, "the error", waitLastError(t, hanging[0], "no answer for ").Status.LastError.Message,
		"cannot reach target cluster "+strings.TrimPrefix(g.host(), "https://"))

	g.set(true)
	opened := time.Now()
	mustAllSucceed(t, hanging)
	t.Logf("%d items of the target that hung are finished %s after it came back", hangingItems, time.Since(opened).Round(time.Second))
}

// mustAllSucceed waits until the jobs of all items have succeeded. That may take longer than other things: what has failed for a while is
// tried again after a minute, and a target that was silent is asked again after half of one.
func mustAllSucceed(t *testing.T, items []*v1alpha1.DeployItem) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for _, item := range items {
		for {
			fresh := read(t, item)
			finished := fresh.Status.JobIDFinished == fresh.Status.JobID
			if finished && fresh.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				t.Fatalf("expected item %s to succeed, but found %s", fresh.Name, describe(fresh))
			}
			if finished {
				break
			}
			select {
			case <-ticker.C:
			case <-ctx.Done():
				t.Fatalf("item %s is not finished: %s", fresh.Name, describe(fresh))
			}
		}
	}
}

// TestDeletionFromATargetThatIsGone: the error says how to let the item go.
func TestDeletionFromATargetThatIsGone(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace, g := newNamespace(t), newGate(t)
	g.set(true)
	createTargetAt(t, namespace, "my-target", g.host())
	object := configMapWith(namespace, "a", nil)
	item := carryOut(t, withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, object)), "my-target"), v1alpha1.DeployItemPhaseSucceeded)

	g.tearDown()
	deleteObject(t, item)
	setJob(t, item)
	item = waitLastError(t, item, "cannot reach target cluster")
	if item.Status.LastError.Reason != "TargetUnreachable" {
		t.Errorf("expected the reason TargetUnreachable, but found %s", describe(item))
	}
	mustMention(t, "the error", item.Status.LastError.Message, "mend the Target", v1alpha1.DeleteWithoutUninstallAnnotation, `"true"`)
	annotate(t, item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	waitGone(t, item)
	if live(t, object) == nil {
		t.Error("the object is gone, although nobody could delete it")
	}
}
