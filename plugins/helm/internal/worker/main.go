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
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// workerName is the first argument of a worker; no path, as that of other processes mostly is.
const workerName = "pergola-helm-worker"

// How many lines and progress messages are sent: so many a second, and so many at once.
const (
	talkPerSecond = 50
	talkBurst     = 500
)

func isWorker() bool { return len(os.Args) == 1 && os.Args[0] == workerName }

// Main is the main function of a worker: in a process that a Pool has started it has h carry requests out and does not
// return. In any other it does nothing. It is to be called before anything else that a program does.
func Main(h helm.Helm) {
	if isWorker() {
		os.Exit(serve(h))
	}
}

// serve returns the exit code.
func serve(h helm.Helm) int {
	// Signals often reach the whole process group. It is the parent that decides.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	log.SetOutput(io.Discard) // Helm prints values there
	syscall.CloseOnExec(orderFile)
	syscall.CloseOnExec(reportFile)
	w := &worker{
		requests: make(chan *helm.Request), answers: make(chan answer, 1),
		to: gob.NewEncoder(os.NewFile(reportFile, "reports")),
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	w.send(report{})
	go w.listen(os.NewFile(orderFile, "orders"), stop)
	if err := w.work(ctx, h); err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot work: %v\n", workerName, err)
		return exitFailed
	}
	return 0
}

// worker is the other side of calls.
type worker struct {
	requests chan *helm.Request
	answers  chan answer

	mu      sync.Mutex // guards the rest
	to      *gob.Encoder
	talk    *rate.Limiter
	dropped int
}

// errRefused is for Helm. The parent knows why.
var errRefused = errors.New("the deployer has refused the objects of the chart")

// work carries out one request after the other. ctx ends with the one that is stopped, which is the last.
func (w *worker) work(ctx context.Context, h helm.Helm) error {
	for first := true; ; first = false {
		req := <-w.requests
		if first {
			if err := limitMemory(req.Limits.MemoryBytes); err != nil {
				return fmt.Errorf("limit the memory: %w", err)
			}
		}
		w.mu.Lock()
		w.talk, w.dropped = rate.NewLimiter(talkPerSecond, talkBurst), 0
		w.mu.Unlock()
		finished := make(chan struct{})
		go watchMemory(req.Limits.MemoryBytes, finished)
		end, err := w.run(ctx, h, req)
		close(finished)
		if err != nil {
			return err
		}
		w.send(report{Done: end})
	}
}

// run has Helm carry out a request, and says how that went.
func (w *worker) run(ctx context.Context, h helm.Helm, req *helm.Request) (*done, error) {
	result, err := h.Run(ctx, req, w)
	known := &helm.Error{}
	w.mu.Lock()
	end := &done{Dropped: w.dropped}
	w.mu.Unlock()
	switch {
	case err == nil && result != nil:
		result.Kept = shorten(cleanLines(result.Kept), maxKept)
		end.Result = result
		return end, w.cleanUp(end, req)
	case err == nil:
		end.Err = crash(req, "there is neither a result nor an error")
	case errors.As(err, &known):
		end.Err = bounded(known)
	case errors.Is(err, context.DeadlineExceeded):
		end.Err = &helm.Error{Kind: helm.TimedOut, Message: doing(req) + " has taken too long"}
	case ctx.Err() == nil: // it may hold values
		end.Err = crash(req, fmt.Sprintf("of an error that it does not explain (%T)", err))
	}
	return end, nil
}

// cleanUp empties the own directory, and says what the process has used so far and whether it can be used again.
func (w *worker) cleanUp(end *done, req *helm.Request) error {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return fmt.Errorf("ask for the time that was used: %w", err)
	}
	end.Busy = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	end.Last = usedMemory() > req.Limits.MemoryBytes/keptShare
	left, err := os.ReadDir(os.TempDir()) // Helm has a cache there
	if err != nil {
		return fmt.Errorf("read the own directory: %w", err)
	}
	for _, entry := range left {
		if err := os.RemoveAll(filepath.Join(os.TempDir(), entry.Name())); err != nil {
			return fmt.Errorf("clear the own directory: %w", err)
		}
	}
	return nil
}

// listen hears what the parent sends until it sends nothing any more: then nobody is left to work for.
func (w *worker) listen(from io.Reader, stop func()) {
	decoder := gob.NewDecoder(from)
	for {
		var o order
		if err := decoder.Decode(&o); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintf(os.Stderr, "%s cannot hear its parent: %v\n", workerName, err)
			}
			os.Exit(exitOrphaned)
		}
		switch {
		case o.Request != nil:
			w.requests <- o.Request
		case o.Answer != nil:
			w.answers <- *o.Answer
		case o.Stop:
			stop()
		}
	}
}

// Rendered asks the parent.
func (w *worker) Rendered(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
	w.send(report{Rendered: &rendered{Objects: objects}})
	select {
	case a := <-w.answers:
		if a.Refused {
			return nil, errRefused
		}
		return a.Objects, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Progress tells the parent.
func (w *worker) Progress(step, message string) {
	w.tell(report{Progress: &progress{Step: step, Message: shorten(clean(message), maxLogLine)}})
}

// Log tells the parent.
func (w *worker) Log(line string) { w.tell(report{Log: shorten(clean(line), maxLogLine)}) }

var _ helm.Observer = (*worker)(nil)

// tell sends what can be dropped.
func (w *worker) tell(r report) {
	w.mu.Lock()
	drop := !w.talk.Allow()
	if drop {
		w.dropped++
	}
	w.mu.Unlock()
	if !drop && (r.Progress != nil || r.Log != "") {
		w.send(r)
	}
}

// send ends the process if nobody listens.
func (w *worker) send(r report) {
	w.mu.Lock()
	err := w.to.Encode(r)
	w.mu.Unlock()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s, a part of a plugin for Pergola and not for people to start, cannot send to its parent: %v\n",
			workerName, err)
		os.Exit(exitOrphaned)
	}
}
