package worker

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// workerName is the first argument of a worker; no path, unlike those of most processes.
const workerName = "pergola-helm-worker"

// Exit codes of a worker without a report of its end.
const (
	exitFailed = 1
	exitMemory = 4
)

func isWorker() bool { return len(os.Args) == 1 && os.Args[0] == workerName }

// Main is the main function of a worker: in a process started by a Pool it has h carry requests out and does not
// return. In all others it does nothing. A program calls it before anything else.
func Main(h helm.Helm) {
	if isWorker() {
		serve(h)
		os.Exit(0)
	}
}

// serve carries out one request after the other, until the parent closes the pipe.
func serve(h helm.Helm) {
	// Signals often reach the whole process group. The decision is the parent's.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	log.SetOutput(io.Discard) // Helm prints values there
	w := &worker{orders: make(chan order), reports: gob.NewEncoder(os.Stdout)}
	os.Stdout = os.Stderr // the output of a library is no report
	ctx, stop := context.WithCancel(context.Background())
	go w.listen(os.Stdin, stop)
	w.send(report{})
	for {
		select {
		case o := <-w.orders:
			w.send(report{Done: w.run(ctx, h, o.Request)})
		case <-ctx.Done():
			return
		}
	}
}

// worker is the other side of a process.
type worker struct {
	orders  chan order
	reports *gob.Encoder
}

// run has Helm carry a request out, and returns its end.
func (w *worker) run(ctx context.Context, h helm.Helm, req *helm.Request) *done {
	over := make(chan struct{})
	defer close(over)
	if err := limitMemory(req.Limits.MemoryBytes, over); err != nil {
		return &done{Err: crash(req, err.Error())}
	}
	result, err := h.Run(ctx, req, w)
	var known *helm.Error
	switch {
	case errors.As(err, &known):
		return &done{Err: known}
	case err != nil: // it may hold values
		return &done{Err: crash(req, fmt.Sprintf("unexpected error of type %T; see the log at level debug", err))}
	}
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return &done{Err: crash(req, fmt.Sprintf("read the CPU time of the process: %s", err))}
	}
	return &done{
		Result: result, Busy: time.Duration(used.Utime.Nano() + used.Stime.Nano()),
		Last: usedMemory() > req.Limits.MemoryBytes/keptShare,
	}
}

// listen receives the parent's orders, until the parent closes the pipe or has ended.
func (w *worker) listen(from io.Reader, stop func()) {
	defer stop()
	decoder := gob.NewDecoder(from)
	for {
		var o order
		if err := decoder.Decode(&o); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintf(os.Stderr, "%s cannot hear its parent: %v\n", workerName, err)
			}
			return
		}
		w.orders <- o
	}
}

// errRefused is for Helm. The parent has the reason.
var errRefused = errors.New("the deployer refused the change")

// Changing implements helm.Observer.
func (w *worker) Changing(ctx context.Context) error {
	_, err := w.ask(ctx, report{Changing: true})
	return err
}

// Rendered implements helm.Observer.
func (w *worker) Rendered(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
	return w.ask(ctx, report{Rendered: &rendered{Objects: objects}})
}

// Found implements helm.Observer.
func (w *worker) Found(ctx context.Context, found []helm.Found) error {
	_, err := w.ask(ctx, report{Found: found})
	return err
}

// ask waits for the parent's answer, with the objects to create.
func (w *worker) ask(ctx context.Context, question report) ([]helm.Object, error) {
	w.send(question)
	select {
	case o := <-w.orders:
		if o.Answer.Refused {
			return nil, errRefused
		}
		return o.Answer.Objects, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Progress implements helm.Observer.
func (w *worker) Progress(step, message string) {
	w.send(report{Progress: &progress{Step: step, Message: message}})
}

// Warning implements helm.Observer.
func (w *worker) Warning(reason, message string) {
	w.send(report{Warning: &warning{Reason: reason, Message: message}})
}

// Log implements helm.Observer.
func (w *worker) Log(line string) { w.send(report{Log: line}) }

// send ends the process if the parent is gone.
func (w *worker) send(r report) {
	if err := w.reports.Encode(r); err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot send to its parent: %v\n", workerName, err)
		os.Exit(exitFailed)
	}
}
