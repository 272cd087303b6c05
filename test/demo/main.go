// Command demo shows what Pergola does: it starts a control plane and a host with its plugins, has the examples carried out,
// shows what comes of them, and leaves nothing running. With DEMO_CLUSTER=current it uses the cluster of $KUBECONFIG instead.
// The binaries are those of bin, or of the directory that DEMO_BINARIES names.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// patience bounds the whole demo, once everything is built.
const patience = 5 * time.Minute

func main() {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	began := time.Now()
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demo failed:", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stdout, "\nDone in %s. Host, plugins and what the demo deployed are gone.\n", time.Since(began).Round(time.Second))
}

func run(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "pergola-demo-")
	if err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	c, err := openCluster(ctx, out, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close(context.WithoutCancel(ctx))) }()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	registry, err := startRegistry() //nolint:contextcheck // it serves until it is closed
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, registry.Close()) }()
	config, err := writeHostConfig(dir, registry)
	if err != nil {
		return err
	}
	host, err := startHost(ctx, out, c.kubeconfig, dir, config)
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, host.Stop(stopCtx))
	}()

	s := &story{client: c.client, out: out, table: newTable(out), registry: registry, containers: c.node != nil}
	return s.tell(ctx, c.targetKubeconfig)
}

// startHost starts a host with all plugins that are built, as a process of its own, and waits until it is ready.
func startHost(ctx context.Context, out io.Writer, kubeconfig, dir, config string) (*testenv.Host, error) {
	log, err := os.Create(filepath.Join(dir, "host.log"))
	if err != nil {
		return nil, fmt.Errorf("create log of the host: %w", err)
	}
	binaries := os.Getenv("DEMO_BINARIES")
	if binaries == "" {
		binaries = filepath.Join(testenv.Root(), "bin")
	}
	host, err := testenv.StartHost(ctx, testenv.HostOptions{
		Binary:     filepath.Join(binaries, "pergola"),
		Kubeconfig: kubeconfig,
		PluginDir:  filepath.Join(binaries, "plugins"),
		Standalone: true,
		Config:     config,
		Log:        log,
	})
	if err != nil {
		return nil, err
	}
	if err := host.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, host.Kill())
	}
	children, err := host.Children()
	if err != nil {
		return nil, errors.Join(err, host.Kill())
	}
	_, err = fmt.Fprintf(out, "Host is ready: process %d, with its plugins as processes of their own: %s\n", host.Pid(), describe(children))
	return host, err
}
