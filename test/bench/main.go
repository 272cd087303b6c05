// Command bench measures one deploy item with many objects, Helm releases, many small jobs, more replicas, the start of
// a host with many deploy items, and the memory of idle ones, with hosts as processes of their own on a real API
// server. It prints tables; docs/benchmarks.md says how to read them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/test/testenv"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest
	b := &bench{}
	flag.StringVar(&b.binary, "binary", filepath.Join(testenv.Root(), "bin", "pergola"), "the pergola program")
	flag.StringVar(&b.plugins, "plugins", "", "a directory with the plugin counter and nothing else; required")
	flag.StringVar(&b.deployers, "deployers", filepath.Join(testenv.Root(), "bin", "plugins"),
		"a directory with the plugins that Pergola has; empty to leave out what it measures")
	flag.IntVar(&b.releases, "releases", 100, "items of the plugin helm in deployers; 0 to leave them out")
	flag.IntVar(&b.atOnce, "jobs-at-once", 1000,
		"small jobs of the plugin manifest in deployers; 0 to leave them out")
	flag.IntVar(&b.replicas, "replicas", 3, "up to how many replicas are measured; 0 to leave that out")
	flag.IntVar(&b.jobs, "jobs", 300, "jobs that the replicas share")
	flag.IntVar(&b.items, "items", 20_000, "finished items that are there when a host starts; 0 to leave that out")
	flag.IntVar(&b.idle, "idle", 5000, "finished items of 10 KB that a host with all deployers has; 0 to leave that out")
	flag.BoolVar(&b.scoped, "scoped", false, "hosts for two namespaces only, that of the items and default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// bench is what is measured, and where.
type bench struct {
	binary, plugins, deployers  string
	releases, atOnce            int
	replicas, jobs, items, idle int
	scoped                      bool

	dir          string
	controlPlane *testenv.ControlPlane
	admin        client.WithWatch
	fleets       int
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.plugins == "" {
		return errors.New("-plugins is required")
	}
	if b.dir, err = os.MkdirTemp("", "pergola-bench-"); err != nil {
		return fmt.Errorf("create directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.controlPlane, err = testenv.StartControlPlane(ctx, b.dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.controlPlane.Stop()) }()
	if b.admin, err = b.controlPlane.Client(); err != nil {
		return err
	}
	for _, m := range []struct {
		wanted  bool
		measure func(context.Context) error
	}{
		{b.deployers != "", b.measureObjects},
		{b.deployers != "" && b.releases > 0, b.measureReleases},
		{b.deployers != "" && b.atOnce > 0, b.measureAtOnce},
		{b.replicas > 0, b.measureReplicas},
		{b.items > 0, b.measureStart},
		{b.deployers != "" && b.idle > 0, b.measureIdle},
	} {
		if !m.wanted {
			continue
		}
		if err := m.measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// say prints a line. A benchmark that cannot print has nobody to tell.
func say(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...)
}
