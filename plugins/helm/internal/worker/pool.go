package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

const (
	defaultWorkers = 16
	defaultGrace   = 3 * time.Second
	// startTime is how long a worker may take until it says hello, on a machine that has no time for it.
	startTime = time.Minute
	// mostProcessors is how many processors a worker uses at once. A chart is rendered by one; the rest is for the garbage collector.
	mostProcessors = 4
)

// Options are the settings of a Pool. The zero value stands for defaults.
type Options struct {
	// Log gets what workers write to their standard errors, at level debug. Defaults to none.
	Log *slog.Logger
	// Workers is how many processes there are at once. Defaults to 16.
	Workers int
	// Rendering is how many of them load and render charts at once, which is what takes memory and time; the others talk to a target.
	// Defaults to the number of processors, and is two at least then.
	Rendering int
	// Grace is how long a worker may take to leave off when its request is cancelled. Defaults to 3 s.
	Grace time.Duration
}

// Pool carries out requests in processes of their own, as many at once as it may; the others wait for their turn in the order in which they
// came. It holds nothing while there is no request, and needs no closing. It is safe for concurrent use.
type Pool struct {
	log         *slog.Logger
	grace       time.Duration
	environment []string

	workers, rendering turns
}

var _ helm.Helm = (*Pool)(nil)

// New returns a Pool. The program's main function must have called Main before.
func New(o Options) *Pool {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.Rendering <= 0 {
		o.Rendering = max(runtime.GOMAXPROCS(0), 2)
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	return &Pool{log: o.Log, grace: o.Grace, environment: environment(), workers: make(turns, o.Workers), rendering: make(turns, o.Rendering)}
}

// Run carries a request out in a new process, which has ended when Run returns. Beyond what helm.Helm says: if the worker is done although
// ctx has ended meanwhile, its result is returned.
func (p *Pool) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	if isWorker() { // it would start itself without an end
		return nil, crash(req, errNotMain.Error())
	}
	if err := checkLimits(req.Limits); err != nil {
		return nil, crash(req, err.Error())
	}
	rendered := func() {}
	if req.Action != helm.Uninstall {
		// Before the other turn: whoever waits for this one must not keep those waiting who do not need it.
		if err := p.rendering.take(ctx); err != nil {
			return nil, fmt.Errorf("wait for a worker that renders: %w", err)
		}
		rendered = sync.OnceFunc(p.rendering.giveBack)
		defer rendered()
	}
	if err := p.workers.take(ctx); err != nil {
		return nil, fmt.Errorf("wait for a worker: %w", err)
	}
	defer p.workers.giveBack()
	child, err := p.start(ctx, p.log.With("action", string(req.Action), "namespace", req.Release.Namespace, "release", req.Release.Name))
	if err != nil {
		return nil, crash(req, "no process could be started for it: "+err.Error())
	}
	defer child.end()
	c := &conversation{pool: p, req: req, observer: observer, child: child, rendered: rendered}
	return c.run(ctx)
}

// errNotMain says that a worker runs what is only for its parent.
var errNotMain = errors.New("this process is a worker: the program's main function must call worker.Main first")

// checkLimits finds limits that were forgotten.
func checkLimits(l helm.Limits) error {
	if l.UnpackedBytes <= 0 || l.Files <= 0 || l.Depth <= 0 || l.RenderedBytes <= 0 || l.RenderTime <= 0 || l.MemoryBytes <= 0 {
		return fmt.Errorf("the request must set all limits, but has %+v", l)
	}
	return nil
}

// turns are places that callers take in the order in which they come.
type turns chan struct{}

func (t turns) take(ctx context.Context) error {
	if ctx.Err() != nil { // even if there is a place
		return causeOf(ctx)
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return causeOf(ctx)
	}
}

func (t turns) giveBack() { <-t }

// causeOf is why a context has ended. It is the context's own error, too.
func causeOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

// passedOn are the variables of the environment that a worker gets: what Go's libraries read.
var passedOn = []string{
	"TZ", "LANG", "GODEBUG", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// environment is the one of every worker, but for its directory. A confined worker cannot find out itself how many processors it may use.
func environment() []string {
	env := []string{"GOMAXPROCS=" + strconv.Itoa(min(runtime.GOMAXPROCS(0), mostProcessors))}
	for _, name := range passedOn {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
