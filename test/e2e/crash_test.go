package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

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

func kill(t *testing.T, pid int) {
	t.Helper()
	signal(t, pid, syscall.SIGKILL)
}

func signal(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// unreadyDeployment stays in progress until its status says that it is ready: there is no kubelet here.
func unreadyDeployment(namespace string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"slow","namespace":%q},"spec":{"replicas":1,
		"selector":{"matchLabels":{"app":"slow"}},"template":{"metadata":{"labels":{"app":"slow"}},"spec":{"containers":[{"name":"c","image":"none"}]}}}}`, namespace)
}

func TestKillManifestPluginInTheMiddle(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	item := withTarget(newItem(namespace, "item", manifestType, manifestConfig(unreadyDeployment(namespace))), "my-target")
	create(t, item)
	jobID := setJob(t, item)
	slow := client.ObjectKey{Namespace: namespace, Name: "slow"}
	eventually(t, "the Deployment to be created", func(ctx context.Context) (string, error) {
		err := admin.Get(ctx, slow, &appsv1.Deployment{})
		if apierrors.IsNotFound(err) {
			return "there is none", nil
		}
		return "", err
	})

	before := pid(t, host, "manifest")
	kill(t, before)
	setDeploymentReady(t, slow)

	if item = waitFinished(t, item, jobID); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected the job to succeed, but found %s", describe(item))
	}
	if after := pid(t, host, "manifest"); after == before {
		t.Errorf("the plugin still has process id %d: it is no process of its own", after)
	}
}

func TestPluginCrashesInACall(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe", "mock")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "crashUnless"))
	create(t, item)
	jobID := setJob(t, item)
	carryOut(t, newItem(namespace, "mock", mockType, mockSucceeds), v1alpha1.DeployItemPhaseSucceeded)

	item = waitFinished(t, item, jobID)
	last := item.Status.LastError
	if item.Status.Phase != v1alpha1.DeployItemPhaseFailed || last == nil || last.Reason != "PluginCrashed" ||
		!slices.Contains(last.Codes, v1alpha1.ErrorInternalProblem) {
		t.Errorf("expected the job to fail because the plugin crashed, but found %s", describe(item))
	}
	if calls := lines(t, filepath.Join(dir, "trace")); len(calls) != 3 {
		t.Errorf("expected three calls, but found %v", calls)
	}
	carryOut(t, newItem(namespace, "other", probeType, probeConfig(t.TempDir())), v1alpha1.DeployItemPhaseSucceeded)

	touch(t, filepath.Join(dir, "crashUnless"))
	carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

func TestKillHostInTheMiddle(t *testing.T) {
	plugins := pluginDir(t, "probe")
	host := startReadyHost(t, testenv.HostOptions{PluginDir: plugins})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil"))
	create(t, item)
	jobID := setJob(t, item)
	eventually(t, "the plugin to be called", func(context.Context) (string, error) {
		return missing(lines(t, filepath.Join(dir, "trace")), "reconcile "+jobID), nil
	})
	plugin := pid(t, host, "probe")

	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the plugin to end with its host", func(context.Context) (string, error) {
		if running(plugin) {
			return "it still runs", nil
		}
		return "", nil
	})
	touch(t, filepath.Join(dir, "blockUntil"))
	startReadyHost(t, testenv.HostOptions{PluginDir: plugins})

	if item = waitFinished(t, item, jobID); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected the new host to finish the job, but found %s", describe(item))
	}
}

func TestStopDrains(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "blockUntil"))
	create(t, item)
	jobID := setJob(t, item)
	eventually(t, "the plugin to be called", func(context.Context) (string, error) {
		return missing(lines(t, filepath.Join(dir, "trace")), "reconcile "+jobID), nil
	})
	plugin := pid(t, host, "probe")

	// A plugin that hears nothing for a while lets us look at the host meanwhile.
	signal(t, plugin, syscall.SIGSTOP)
	if err := host.Terminate(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the host to say that it is not ready, because it is stopping", func(ctx context.Context) (string, error) {
		if err := host.Ready(ctx); err == nil || err.Error() != "the host is stopping" {
			return fmt.Sprintf("it says %v", err), nil
		}
		return "", nil
	})
	signal(t, plugin, syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := host.Stop(ctx); err != nil {
		t.Fatalf("the host did not stop in order: %v", err)
	}
	if running(plugin) {
		t.Error("the plugin runs on after its host has stopped")
	}
	if fresh := read(t, item); fresh.Status.JobIDFinished == jobID || fresh.Status.LastError != nil {
		t.Errorf("a job that the host could not finish must stay as it is, but found %s", describe(fresh))
	}

	touch(t, filepath.Join(dir, "blockUntil"))
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	waitFinished(t, item, jobID)
}

func TestPluginPanics(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	before := pid(t, host, "probe")

	item := carryOut(t, newItem(namespace, "item", probeType, probeConfig(dir, "panic")), v1alpha1.DeployItemPhaseFailed)

	if lastError := item.Status.LastError; lastError == nil || lastError.Reason != "PluginPanic" {
		t.Errorf("expected reason PluginPanic, but found %s", describe(item))
	}
	if after := pid(t, host, "probe"); after != before {
		t.Error("the panic of one call has ended the plugin")
	}
	if !strings.Contains(host.Log(), "the configuration asks for it") {
		t.Error("the panic is not in the host's log")
	}
}

func TestWakeUpComesBeforeThePoll(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "waitFor"))
	create(t, item)
	jobID := setJob(t, item)
	waitFor(t, item, "in progress", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing })

	if waiting := conditionOf(read(t, item), "Reconciling"); waiting.Message != "the file "+dir+"/waitFor" {
		t.Errorf("the status does not say what the job waits for: %+v", waiting)
	}
	touch(t, filepath.Join(dir, "waitFor")) // the plugin asked to be called again in an hour

	if item = waitFinished(t, item, jobID); conditionOf(item, "Reconciling").Type != "" {
		t.Errorf("a finished job still waits: %+v", item.Status.Conditions)
	}
	if calls := lines(t, filepath.Join(dir, "trace")); len(calls) != 2 {
		t.Errorf("expected two calls, but found %v", calls)
	}
}

func TestWhatAPluginSaysArrives(t *testing.T) {
	host := startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	namespace, dir := newNamespace(t), t.TempDir()
	item := carryOut(t, newItem(namespace, "item", probeType, probeConfig(dir, "log", "event")), v1alpha1.DeployItemPhaseSucceeded)

	eventually(t, "the record in the host's log", func(context.Context) (string, error) {
		var record string
		for line := range strings.Lines(host.Log()) {
			if strings.Contains(line, `"msg":"`+dir+`/log"`) {
				record = line
			}
		}
		for _, field := range []string{
			`"level":"WARN"`, `"plugin":"probe"`, `"deployitem":"` + namespace + `/item"`, `"jobID":"` + item.Status.JobID + `"`,
			`"number":9007199254740993`, `"plugin_msg":"an attribute of that name"`,
		} {
			if !strings.Contains(record, field) {
				return fmt.Sprintf("%s is not in %q", field, record), nil
			}
		}
		return "", nil
	})
	eventually(t, "the event", func(ctx context.Context) (string, error) {
		list := &corev1.EventList{}
		if err := admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		for _, event := range list.Items {
			if event.Reason == "Probed" && event.InvolvedObject.Name == "item" && event.Message == dir+"/event" {
				return "", nil
			}
		}
		return fmt.Sprintf("%d other events", len(list.Items)), nil
	})
}
