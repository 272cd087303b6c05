// Command workload is what the pods of tests run: a server that becomes ready
// when it is told to, or a task that ends as it is told to.
//
//	workload [-wait]    serve GET /ready on port 8080 until SIGTERM; with -wait
//	                    it is not ready before it was asked for POST /release
//	workload -get URL   end when the URL answers with 200
//	workload -exit 3    end with this code
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	address = ":8080"
	// retry is how long a task waits before it asks again.
	retry = 200 * time.Millisecond
	// answer is how long a server may take.
	answer = 5 * time.Second
)

func main() {
	wait := flag.Bool("wait", false, "the server is not ready before POST /release")
	url := flag.String("get", "", "end when this URL answers with 200")
	code := flag.Int("exit", -1, "end with this code, if it is not negative")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *code >= 0:
		os.Exit(*code)
	case *url != "":
		err = get(ctx, *url)
	default:
		err = serve(ctx, !*wait)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

// serve serves until the context ends.
func serve(ctx context.Context, atOnce bool) error {
	var ready atomic.Bool
	ready.Store(atOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			http.Error(w, "not ready yet", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("POST /release", func(http.ResponseWriter, *http.Request) { ready.Store(true) })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: answer}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// get asks a URL until it answers with 200, or the context ends.
func get(ctx context.Context, url string) error {
	ticker := time.NewTicker(retry)
	defer ticker.Stop()
	for {
		err := ask(ctx, url)
		if err == nil {
			return nil
		}
		fmt.Fprintln(os.Stderr, "workload:", err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

func ask(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("get %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	return nil
}
