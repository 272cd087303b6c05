package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// workerName is the first argument of a worker; no path, as that of other processes mostly is.
const workerName = "pergola-helm-worker"

func isWorker() bool { return len(os.Args) == 1 && os.Args[0] == workerName }

// Main is the main function of a worker: in a process that a Pool has started it has h carry the request out and does not return. In any
// other it does nothing. It is to be called before anything else that a program does.
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
	w := &worker{from: os.NewFile(requestFile, "requests"), to: os.NewFile(answerFile, "answers"), answers: make(chan answer, 1)}
	if err := w.work(h); err != nil {
		fmt.Fprintf(os.Stderr, "%s is a part of a plugin for Pergola and not for people to start, and cannot work: %v\n", workerName, err)
		return exitFailed
	}
	return 0
}

// worker is the other side of a conversation.
type worker struct {
	from    *os.File
	answers chan answer

	mu sync.Mutex // guards to
	to io.Writer
}

// answer is that to kindRendered.
type answer struct {
	objects []helm.Object
	refused bool
}

// errRefused is for Helm. The parent knows why.
var errRefused = errors.New("the deployer has refused the objects of the chart")

func (w *worker) work(h helm.Helm) error {
	syscall.CloseOnExec(requestFile)
	syscall.CloseOnExec(answerFile)
	if err := w.say(kindHello, nil); err != nil {
		return err
	}
	req, err := w.readRequest()
	if err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if err := limitMemory(req.Limits.MemoryBytes); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go w.listen(stop)
	result, err := run(ctx, h, req, w)
	return w.finish(ctx, req, result, err)
}

// finish says how the request went.
func (w *worker) finish(ctx context.Context, req *helm.Request, result *helm.Result, err error) error {
	if err != nil {
		found := errorOf(req, err)
		if found == nil && ctx.Err() != nil {
			return w.say(kindCancelled, nil)
		}
		if found == nil {
			fmt.Fprintf(os.Stderr, "an error of type %T was not expected\n", err) // it may hold values
			found = crash(req, fmt.Sprintf("of an error that it does not explain (%T)", err))
		}
		return w.say(kindError, bounded(found))
	}
	if result == nil {
		return w.say(kindError, crash(req, "there is neither a result nor an error"))
	}
	if err := w.sayResult(result); err != nil {
		return w.say(kindError, crash(req, "its result cannot be sent: "+err.Error()))
	}
	return nil
}

// sayResult says a result as its lists and the rest of it.
func (w *worker) sayResult(result *helm.Result) error {
	if err := sayAll(w, kindDefinition, result.Definitions); err != nil {
		return err
	}
	if err := sayAll(w, kindObject, result.Objects); err != nil {
		return err
	}
	if err := sayAll(w, kindHook, result.Hooks); err != nil {
		return err
	}
	rest := *result
	rest.Definitions, rest.Objects, rest.Hooks = nil, nil, nil
	return w.say(kindResult, rest)
}

// errorOf returns what can be told of an error; nil if that is nothing.
func errorOf(req *helm.Request, err error) *helm.Error {
	var (
		known    *helm.Error
		panicked *panicError
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &panicked):
		return crash(req, panicked.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return &helm.Error{Kind: helm.TimedOut, Message: doing(req) + " has taken too long"}
	default:
		return nil
	}
}

// run has Helm carry out a request, and survives its panics.
func run(ctx context.Context, h helm.Helm, req *helm.Request, observer helm.Observer) (result *helm.Result, err error) {
	defer func() {
		if found := recover(); found != nil {
			fmt.Fprintf(os.Stderr, "panic of type %T\n%s", found, debug.Stack()) // it may hold values
			result, err = nil, &panicError{found}
		}
	}()
	return h.Run(ctx, req, observer)
}

// panicError is a panic of Helm's.
type panicError struct{ found any }

// Error tells what a panic of the Go runtime says, which has types and numbers only. Of others it has the type.
func (e *panicError) Error() string {
	what := fmt.Sprintf("%T", e.found)
	var fromRuntime runtime.Error
	if err, ok := e.found.(error); ok && errors.As(err, &fromRuntime) {
		what = fromRuntime.Error()
	}
	return "it has panicked, which is a mistake in the deployer or in Helm (" + what + ")"
}

func (w *worker) readRequest() (*helm.Request, error) {
	k, content, err := w.read()
	if err != nil {
		return nil, err
	}
	var req helm.Request
	if k != kindRequest || json.Unmarshal(content, &req) != nil {
		return nil, errNonsense
	}
	return &req, nil
}

func (w *worker) read() (kind, []byte, error) {
	return readMessage(w.from, func(kind) (int64, error) { return maxRequestBytes, nil })
}

// listen hears what the parent says until it says nothing any more: then it is gone, and nobody is left to work for.
func (w *worker) listen(stop func()) {
	if err := w.hear(stop); !errors.Is(err, io.EOF) {
		fmt.Fprintf(os.Stderr, "%s cannot hear its parent: %v\n", workerName, err)
	}
	os.Exit(exitOrphaned)
}

// hear returns when there is nothing more to hear.
func (w *worker) hear(stop func()) error {
	var objects []helm.Object
	for {
		k, content, err := w.read()
		if err != nil {
			return err
		}
		switch k {
		case kindStop:
			stop()
		case kindObject:
			var object helm.Object
			if json.Unmarshal(content, &object) != nil {
				return errNonsense
			}
			objects = append(objects, object)
		case kindInstead:
			w.answers <- answer{objects: objects}
		case kindRefused:
			w.answers <- answer{refused: true}
		default:
			return errNonsense
		}
	}
}

// Rendered asks the parent.
func (w *worker) Rendered(ctx context.Context, objects []helm.Object) ([]helm.Object, error) {
	if err := sayAll(w, kindObject, objects); err != nil {
		return nil, err
	}
	if err := w.say(kindRendered, nil); err != nil {
		return nil, err
	}
	select {
	case a := <-w.answers:
		if a.refused {
			return nil, errRefused
		}
		return a.objects, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Progress tells the parent.
func (w *worker) Progress(step, message string) {
	w.mustSay(kindProgress, progress{Step: step, Message: shorten(message, maxLogLine)})
}

// Log tells the parent.
func (w *worker) Log(line string) { w.mustSay(kindLog, shorten(line, maxLogLine)) }

var _ helm.Observer = (*worker)(nil)

// mustSay ends the process if nobody listens.
func (w *worker) mustSay(k kind, content any) {
	if err := w.say(k, content); err != nil {
		fmt.Fprintf(os.Stderr, "%s cannot speak to its parent: %v\n", workerName, err)
		os.Exit(exitOrphaned)
	}
}

func (w *worker) say(k kind, content any) error {
	var message bytes.Buffer
	if err := appendMessage(&message, k, content); err != nil {
		return err
	}
	return w.write(message.Bytes())
}

// sayAll says one message for each of a list, many of them at once.
func sayAll[T any](w *worker, k kind, list []T) error {
	const enough = 1 << 20
	var messages bytes.Buffer
	for i := range list {
		if err := appendMessage(&messages, k, &list[i]); err != nil {
			return err
		}
		if messages.Len() < enough && i < len(list)-1 {
			continue
		}
		if err := w.write(messages.Bytes()); err != nil {
			return err
		}
		messages.Reset()
	}
	return nil
}

func (w *worker) write(messages []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := w.to.Write(messages)
	return err
}
