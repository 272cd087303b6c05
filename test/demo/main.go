// Command demo shows what Pergola does: it starts a control plane, a registry and a host with its plugins, and runs
// story.sh. Meanwhile it builds and starts a cluster with a node for Pods, where it then runs container.sh. It leaves
// nothing running.
//
// With DEMO_CLUSTER=current it runs story.sh on the cluster of $KUBECONFIG instead, and that is all. The binaries are
// those of bin, or of the directory that DEMO_BINARIES names. DEMO_NODE_PACKAGES is a command that installs what a
// node needs, where it may; DEMO_BEGAN is when the user's command began, in milliseconds of Unix time.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/chartserver"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	// kubeconfig is the file by which the commands and the host reach the cluster.
	kubeconfig = "demo.kubeconfig"
	// first is the file that story.sh writes when the first item has Succeeded.
	first = "first"
	// timeout bounds each of the two stories once its cluster is up.
	timeout = 5 * time.Minute
	// Who may pull the chart of the helm example from the demo's registry.
	registryUser, registryPassword = "demo", "not-for-everybody"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	began := time.Now()
	if milliseconds, err := strconv.ParseInt(os.Getenv("DEMO_BEGAN"), 10, 64); err == nil {
		began = time.UnixMilli(milliseconds)
	}
	succeeded, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demo failed:", err)
		os.Exit(1)
	}
	say("\nDone in %s; the first item had Succeeded after %s. Host, plugins and what the demo deployed are gone.",
		time.Since(began).Round(time.Second), succeeded.Sub(began).Round(time.Second))
}

func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

// run returns when the first item had Succeeded.
func run(ctx context.Context) (succeeded time.Time, err error) {
	dir, err := os.MkdirTemp("", "pergola-demo-")
	if err != nil {
		return succeeded, fmt.Errorf("create directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	registry, err := chartserver.NewRegistry(chartserver.Options{ //nolint:contextcheck // it serves until it is closed
		PlainHTTP: true, Auth: chartserver.Basic, User: registryUser, Password: registryPassword,
	})
	if err != nil {
		return succeeded, err
	}
	defer func() { err = errors.Join(err, registry.Close()) }()
	_, err = registry.Push("charts/plain", "1.0.0", charts.Pack("plain")) //nolint:contextcheck // no connection
	if err != nil {
		return succeeded, fmt.Errorf("put the chart into the demo's registry: %w", err)
	}
	d := &demo{dir: dir, binaries: cmp.Or(os.Getenv("DEMO_BINARIES"), filepath.Join(testenv.Root(), "bin"))}
	d.env = append(os.Environ(), "DEMO="+filepath.Join(testenv.Root(), "test", "demo"),
		"REGISTRY="+registry.Host(), "LOGIN="+registryUser, "PASSWORD="+registryPassword)
	if err := d.show(ctx); err != nil {
		return succeeded, err
	}
	mark, err := os.Stat(filepath.Join(dir, "story.sh", first))
	if err != nil {
		return succeeded, fmt.Errorf("find when the first item had Succeeded: %w", err)
	}
	return mark.ModTime(), nil
}

// demo is a demo that runs.
type demo struct {
	dir      string // for its files
	binaries string
	env      []string // of its commands
}

// show shows both stories, or the first one where there can be no node.
func (d *demo) show(ctx context.Context) (err error) {
	cluster, stop, err := d.openCluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	story := func(ready func()) error {
		return d.play(ctx, "story.sh", cluster, "mock manifest helm mistake", ready)
	}
	if current() {
		return story(func() {})
	}
	var node node
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		err = errors.Join(err, node.stop(context.WithoutCancel(ctx)))
	}()
	if err := story(func() { node.start(ctx, d.dir) }); err != nil {
		return err
	}
	cluster, err = node.wait()
	if errors.Is(err, testenv.ErrNoNode) {
		say("\nThere will be no container item: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	return d.play(ctx, "container.sh", cluster, "container", func() {})
}

// current reports whether the demo is to use the cluster of $KUBECONFIG.
func current() bool { return os.Getenv("DEMO_CLUSTER") == "current" }

// openCluster starts a control plane, or takes the current cluster, and returns its kubeconfig.
func (d *demo) openCluster(ctx context.Context) (cluster string, stop func() error, err error) {
	path := d.binaries + ":" + os.Getenv("PATH")
	if _, err := exec.LookPath("kubectl"); err != nil || !current() {
		assets, err := testenv.Assets(ctx)
		if err != nil {
			return "", nil, err
		}
		path = assets + ":" + path
	}
	d.env = append(d.env, "PATH="+path)
	if current() {
		say("Using the cluster of $KUBECONFIG. CustomResourceDefinitions that the demo creates stay there afterwards.")
		say("There will be no container item: the demo's images are not on that cluster.")
		return os.Getenv("KUBECONFIG"), func() error { return nil }, nil
	}
	began := time.Now()
	say("Starting a control plane: kube-apiserver and etcd.")
	controlPlane, err := testenv.StartControlPlane(ctx, d.dir, testenv.WithoutAuditLog())
	if err != nil {
		return "", nil, err
	}
	say("Control plane is up after %s.", time.Since(began).Round(100*time.Millisecond))
	return controlPlane.Kubeconfig, controlPlane.Stop, nil
}

// play starts a host on a cluster, runs a story about items of test/examples, and stops the host. It calls ready when
// the host is.
func (d *demo) play(ctx context.Context, story, cluster, items string, ready func()) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	dir := filepath.Join(d.dir, story)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("create directory of %s: %w", story, err)
	}
	env := append(slices.Clone(d.env), "KUBECONFIG="+filepath.Join(dir, kubeconfig), "CLUSTER="+cluster, "ITEMS="+items)
	if err := shell(ctx, dir, env, ". $DEMO/prepare.sh").Run(); err != nil {
		return err
	}
	host, err := d.startHost(ctx, dir)
	if err != nil {
		return err
	}
	ready()
	err = shell(ctx, dir, env, ". $DEMO/stage.sh; . $DEMO/"+story).Run()
	ctx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancelStop()
	return errors.Join(err, host.Stop(ctx))
}

// startHost starts a host with all plugins that are built, and returns when it is ready.
func (d *demo) startHost(ctx context.Context, dir string) (*testenv.Host, error) {
	host, err := testenv.StartHost(ctx, testenv.HostOptions{
		Binary:     filepath.Join(d.binaries, "pergola"),
		PluginDir:  filepath.Join(d.binaries, "plugins"),
		Kubeconfig: filepath.Join(dir, kubeconfig),
		Config:     filepath.Join(dir, "host.yaml"),
		Standalone: true,
	})
	if err != nil {
		return nil, err
	}
	if err := host.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, host.Kill())
	}
	children, _ := host.Children() // to be shown, and nothing else
	say("Host is ready: process %d, with its plugins as processes of their own: %s", host.Pid(),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(children), "map["), "]"))
	return host, nil
}

// shell is a shell that runs commands, and shows what they print.
func shell(ctx context.Context, dir string, env []string, commands string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-ec", commands) //nolint:gosec // the demo's own
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, os.Stdout, os.Stderr
	// A signal for the demo ends all that the shell has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	return cmd
}
