// Command soak lets replicas of a host, as processes of their own on a real API server, reconcile many deploy items again and again for as long as
// one likes, while hosts and plugins are killed, the API server is restarted and the target cannot be reached, all at random. At the end it says what
// has happened and whether anything was lost, was done twice, has stayed behind or has grown. It ends with 1 if so.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pergola-deploy/pergola/test/testenv"
)

func main() {
	ctrl.SetLogger(logr.Discard()) // what the clients log is of no interest, least of all while the API server is away
	klog.SetLogger(logr.Discard())
	s := &soak{out: os.Stdout}
	flag.StringVar(&s.binary, "binary", filepath.Join(testenv.Root(), "bin", "pergola"), "the pergola program")
	flag.StringVar(&s.plugins, "plugins", "", "a directory with the plugins counter and manifest and nothing else; required")
	flag.DurationVar(&s.length, "for", 10*time.Minute, "how long there is trouble")
	flag.IntVar(&s.replicas, "replicas", 3, "replicas of the host, at least 2: the host of the first one is never killed, so that its memory can be measured")
	flag.IntVar(&s.items, "items", 1000, "deploy items, half of them of the plugin counter and half of the plugin manifest")
	flag.DurationVar(&s.every, "every", time.Minute, "how often each item is reconciled")
	flag.Uint64Var(&s.seed, "seed", 0, "seed of the trouble; 0 for another one each time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// soak is what is to happen.
type soak struct {
	binary, plugins string
	length, every   time.Duration
	replicas, items int
	seed            uint64
	out             io.Writer
}

// run lets trouble happen and judges what has become of the items. The error says what is wrong, all of it.
func (s *soak) run(ctx context.Context) (err error) {
	switch {
	case s.plugins == "":
		return errors.New("-plugins is required")
	case s.replicas < 2:
		return fmt.Errorf("-replicas: expected at least 2, but found %d", s.replicas)
	}
	for s.seed == 0 {
		s.seed = rand.Uint64() //nolint:gosec // nobody must not guess it
	}
	w, err := s.newWorld(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.discard(ctx)) }()
	s.say("%d deploy items, each reconciled every %s, %d replicas, trouble for %s with -seed=%d", s.items, s.every, s.replicas, s.length, s.seed)
	if err := w.start(ctx); err != nil {
		return err
	}
	s.say("all items have succeeded once, after %s", time.Since(w.began).Round(time.Second))
	w.memory.begin(ctx, w.fleet[0])
	t := &trouble{world: w, random: rand.New(rand.NewPCG(s.seed, 0)), done: map[string]int{}} //nolint:gosec // it has to be repeatable
	if err := t.make(ctx, s.length); err != nil {
		return errors.Join(err, w.memory.end())
	}
	s.say("no more trouble, after %s", time.Since(w.began).Round(time.Second))
	if err := errors.Join(w.comeToRest(ctx), w.memory.end()); err != nil {
		return err
	}
	s.say("all items have succeeded since")
	return s.judge(ctx, w, t)
}

// say prints a line. Who cannot print has nobody to tell.
func (s *soak) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}
