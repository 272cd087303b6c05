// Command demo shows what Pergola does: it starts a cluster, a registry and a host with its plugins, runs story.sh,
// and leaves nothing running. With DEMO_CLUSTER=current it uses the cluster of $KUBECONFIG instead. The binaries are
// those of bin, or of the directory that DEMO_BINARIES names.
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
	// timeout bounds the demo once its cluster is up.
	timeout = 5 * time.Minute
	// The images of the container example, which nobody can pull.
	helperImage, stepImage = "localhost/pergola-container-helper:1", "localhost/step:1"
	// Who may pull the chart of the helm example from the demo's registry.
	registryUser, registryPassword = "demo", "not-for-everybody"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	began := time.Now()
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demo failed:", err)
		os.Exit(1)
	}
	say("\nDone in %s. Host, plugins and what the demo deployed are gone.", time.Since(began).Round(time.Second))
}

func say(format string, args ...any) { fmt.Fprintf(os.Stdout, format+"\n", args...) }

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "pergola-demo-")
	if err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binaries := cmp.Or(os.Getenv("DEMO_BINARIES"), filepath.Join(testenv.Root(), "bin"))
	d := &demo{dir: dir, env: append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, kubeconfig))}
	stop, err := d.openCluster(ctx, binaries)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(context.WithoutCancel(ctx))) }()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	registry, err := chartserver.NewRegistry(chartserver.Options{ //nolint:contextcheck // it serves until it is closed
		PlainHTTP: true, Auth: chartserver.Basic, User: registryUser, Password: registryPassword,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, registry.Close()) }()
	_, err = registry.Push("charts/plain", "1.0.0", charts.Pack("plain")) //nolint:contextcheck // no connection
	if err != nil {
		return fmt.Errorf("put the chart into the demo's registry: %w", err)
	}
	d.env = append(d.env, "REGISTRY="+registry.Host(), "LOGIN="+registryUser, "PASSWORD="+registryPassword)
	if err := d.shell(ctx, ". $DEMO/prepare.sh"); err != nil {
		return err
	}
	host, err := d.startHost(ctx, binaries)
	if err != nil {
		return err
	}
	err = d.shell(ctx, ". $DEMO/story.sh")
	ctx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancelStop()
	return errors.Join(err, host.Stop(ctx))
}

// demo is a demo that runs: a directory for its files, and the environment of its commands.
type demo struct {
	dir string
	env []string
}

// openCluster starts a cluster, with a node if the machine can run one, or takes the current one if the environment
// asks for it.
func (d *demo) openCluster(ctx context.Context, binaries string) (stop func(context.Context) error, err error) {
	current := os.Getenv("DEMO_CLUSTER") == "current"
	path := binaries + ":" + os.Getenv("PATH")
	if _, err := exec.LookPath("kubectl"); err != nil || !current {
		assets, err := testenv.Assets(ctx)
		if err != nil {
			return nil, err
		}
		path = assets + ":" + path
	}
	story := filepath.Join(testenv.Root(), "test", "demo")
	d.env = append(d.env, "PATH="+path, "DEMO="+story, "CLUSTER="+os.Getenv("KUBECONFIG"))
	if current {
		say("Using the cluster of $KUBECONFIG. CustomResourceDefinitions that the demo creates stay there afterwards.")
		say("There will be no container item: the demo's images are not on that cluster.")
		return func(context.Context) error { return nil }, nil
	}
	began := time.Now()
	say("Starting a control plane: kube-apiserver and etcd.")
	node, err := testenv.StartNode(ctx, filepath.Join(d.dir, "node"))
	if errors.Is(err, testenv.ErrNoNode) {
		say("There will be no container item: %v", err)
		controlPlane, err := testenv.StartControlPlane(ctx, d.dir)
		if err != nil {
			return nil, err
		}
		say("Control plane is up after %s.", time.Since(began).Round(100*time.Millisecond))
		d.env = append(d.env, "CLUSTER="+controlPlane.Kubeconfig)
		return func(context.Context) error { return controlPlane.Stop() }, nil
	}
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		node.Image(ctx, helperImage, "./plugins/container/helper"), node.Image(ctx, stepImage, "./test/images/step"))
	if err != nil {
		return nil, errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
	}
	say("Control plane and a node for Pods are up after %s.", time.Since(began).Round(100*time.Millisecond))
	d.env = append(d.env, "CLUSTER="+node.Kubeconfig(), "CONTAINER=container")
	return node.Stop, nil
}

// startHost starts a host with all plugins that are built, and returns when it is ready.
func (d *demo) startHost(ctx context.Context, binaries string) (*testenv.Host, error) {
	host, err := testenv.StartHost(ctx, testenv.HostOptions{
		Binary:     filepath.Join(binaries, "pergola"),
		PluginDir:  filepath.Join(binaries, "plugins"),
		Kubeconfig: filepath.Join(d.dir, kubeconfig),
		Config:     filepath.Join(d.dir, "host.yaml"),
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

// shell runs commands, and shows what they print.
func (d *demo) shell(ctx context.Context, commands string) error {
	cmd := exec.CommandContext(ctx, "sh", "-ec", commands) //nolint:gosec // the demo's own
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.dir, d.env, os.Stdout, os.Stderr
	// A signal for the demo ends all that the shell has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	return cmd.Run()
}
