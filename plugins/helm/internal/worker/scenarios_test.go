package worker

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// scripted is a Helm that does what the name of the release says.
type scripted struct{}

func (scripted) Run(ctx context.Context, req *helm.Request, o helm.Observer) (*helm.Result, error) {
	return scenarios[req.Release.Name](ctx, req, o)
}

var chart = helm.Metadata{Name: "shop", Version: "1.2.3"}

// sink keeps the compiler from leaving things out.
var sink [][]byte

// scenario is a Helm that does one thing.
type scenario = func(ctx context.Context, req *helm.Request, o helm.Observer) (*helm.Result, error)

// does is a scenario that needs nothing of its request.
func does(what func() error) scenario {
	return func(context.Context, *helm.Request, helm.Observer) (*helm.Result, error) {
		return &helm.Result{}, what()
	}
}

// told is a scenario that first tells the process id, as a step of progress.
func told(then func(ctx context.Context) (*helm.Result, error)) scenario {
	return func(ctx context.Context, _ *helm.Request, o helm.Observer) (*helm.Result, error) {
		o.Progress("Wait", strconv.Itoa(os.Getpid()))
		return then(ctx)
	}
}

// logged is a scenario that first logs the process id.
func logged(then func() (*helm.Result, error)) scenario {
	return func(_ context.Context, _ *helm.Request, o helm.Observer) (*helm.Result, error) {
		o.Log(strconv.Itoa(os.Getpid()))
		return then()
	}
}

var scenarios = map[string]scenario{
	"installs": func(ctx context.Context, req *helm.Request, o helm.Observer) (*helm.Result, error) {
		o.Progress("Load", "loads <the chart>")
		o.Log("a line of Helm's")
		err := o.Changing(ctx)
		var found []helm.Object
		if err == nil {
			found, err = o.Rendered(ctx, objects(3, "<&>"))
		}
		if errors.Is(err, errRefused) {
			return nil, &helm.Error{Kind: helm.Refused, Message: "the objects were refused"}
		}
		if err != nil {
			return nil, err
		}
		o.Progress("Create", "creates the objects")
		return &helm.Result{
			Revision: 2, Chart: chart, Definitions: objects(1, "d"), Objects: found,
			Hooks: []helm.Hook{{Object: objects(1, "h")[0], Events: []string{"pre-install"}}},
		}, nil
	},
	"pid": logged(func() (*helm.Result, error) { return &helm.Result{Revision: os.Getpid()}, nil }),
	"keeps memory": logged(func() (*helm.Result, error) {
		sink = append(sink, bytes.Repeat([]byte("x"), 100<<20))
		return &helm.Result{}, nil
	}),
	"index": func(_ context.Context, req *helm.Request, _ helm.Observer) (*helm.Result, error) {
		listed, err := helm.ReadIndex(req.Chart.Path, req.Wanted)
		return &helm.Result{Listed: listed}, err
	},
	"nothing": does(func() error { return nil }),
	"echo": func(_ context.Context, req *helm.Request, _ helm.Observer) (*helm.Result, error) {
		kept, err := json.Marshal(req)
		return &helm.Result{Kept: string(kept), Values: req.Values}, err
	},
	"has": func(context.Context, *helm.Request, helm.Observer) (*helm.Result, error) {
		if _, err := os.Stdout.WriteString("to the log"); err != nil {
			return nil, err
		}
		priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		return &helm.Result{Kept: fmt.Sprint(20-priority, runtime.GOMAXPROCS(0))}, err
	},

	// spies reads what its parent must not read, and what was never opened to the worker.
	"spies": func(_ context.Context, req *helm.Request, _ helm.Observer) (*helm.Result, error) {
		refused := 0
		for _, path := range []string{req.Chart.Path, "/proc/self/status"} {
			if _, err := os.ReadFile(path); errors.Is(err, os.ErrPermission) {
				refused++
			}
		}
		return &helm.Result{Kept: fmt.Sprint(refused, " refused")}, nil
	},

	"known error": logged(func() (*helm.Result, error) {
		return nil, fmt.Errorf("wrapped: %w", &helm.Error{Kind: helm.RenderFailed, Message: "it fails"})
	}),
	"unknown error": does(func() error { return errors.New("secret") }),
	"panics":        does(func() error { panic("secret") }), //nolint:forbidigo // what is tested
	"panics on": does(func() error {
		go panic("secret\nlines") //nolint:forbidigo // what is tested
		select {}
	}),
	"map fatal": does(func() error {
		var mu sync.Mutex
		mu.Unlock() // which cannot be recovered from
		return nil
	}),
	"exits 7": does(func() error { os.Exit(7); return nil }),
	"killed":  does(func() error { return suicide(syscall.SIGKILL) }),

	"grows": does(func() error {
		for {
			sink = append(sink, bytes.Repeat([]byte("x"), 1<<20))
		}
	}),
	"grows at once": does(func() error {
		sink = append(sink, bytes.Repeat([]byte("x"), 6<<30))
		return errors.New("it got them")
	}),
	"garbage": does(func() error {
		for range 60 {
			sink = [][]byte{bytes.Repeat([]byte("x"), 10<<20)}
		}
		return nil
	}),
	"recurses": does(func() error { return fmt.Errorf("found the end after %d", deeper(1)) }),
	"loops":    does(loop),
	"loops after rendering": func(ctx context.Context, _ *helm.Request, o helm.Observer) (*helm.Result, error) {
		if _, err := o.Rendered(ctx, nil); err != nil {
			return nil, err
		}
		o.Progress("Create", strconv.Itoa(os.Getpid()))
		return nil, loop()
	},
	"waits": told(func(ctx context.Context) (*helm.Result, error) {
		<-ctx.Done()
		return nil, fmt.Errorf("waiting has ended: %w", ctx.Err())
	}),
	"waits and is done": told(func(ctx context.Context) (*helm.Result, error) {
		<-ctx.Done()
		return &helm.Result{Revision: 3}, nil
	}),
	"waits for ever": told(func(context.Context) (*helm.Result, error) { select {} }),
	"takes its time": func(ctx context.Context, req *helm.Request, o helm.Observer) (*helm.Result, error) {
		if req.Action != helm.Uninstall {
			if _, err := o.Rendered(ctx, nil); err != nil {
				return nil, err
			}
		}
		time.Sleep(req.Options.Timeout)
		return &helm.Result{}, nil
	},
	"signals": func(ctx context.Context, _ *helm.Request, _ helm.Observer) (*helm.Result, error) {
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			if err := suicide(s); err != nil {
				return nil, err
			}
		}
		return &helm.Result{}, ctx.Err()
	},

	"writes": does(func() error {
		log.Print("warning: cannot overwrite table with non table for shop.password (secret)")
		fmt.Fprintln(os.Stderr, "first")
		fmt.Fprintln(os.Stdout, "second")
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 10*maxStderr))
		return nil
	}),
}

func suicide(with syscall.Signal) error {
	if err := syscall.Kill(os.Getpid(), with); err != nil {
		return err
	}
	time.Sleep(50 * time.Millisecond) // the signal is on its way
	return nil
}

func deeper(n int) int {
	if n < 0 {
		return 0
	}
	var frame [64]int
	frame[n%64] = n
	return deeper(n+1) + frame[(n+1)%64]
}

func loop() error {
	for i := 0; ; i++ {
		if i < 0 {
			return errors.New("it has come around")
		}
	}
}

// oddWorkers are what is no worker, or one that has gone wrong.
var oddWorkers = map[string]func(){
	"mute":    func() { _, _ = io.Copy(io.Discard, os.Stdin) },
	"garbage": writeGarbage,
	"garbage later": func() {
		_ = gob.NewEncoder(os.Stdout).Encode(report{})
		writeGarbage()
	},
}

func writeGarbage() {
	_, _ = os.Stdout.WriteString(strings.Repeat("GET / HTTP/1.1\r\n", 100))
	_, _ = io.Copy(io.Discard, os.Stdin)
}
