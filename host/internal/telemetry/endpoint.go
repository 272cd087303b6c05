package telemetry

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// RequestTimeout is how long a server may read a request, whoever sends it, and answer one that takes no time of its
// own.
const RequestTimeout = 10 * time.Second

// shutdownTimeout is how long requests under way may take when the host stops.
const shutdownTimeout = 2 * time.Second

// Serve opens an address, such as ":8080", for a server, whose Addr it sets to what was opened. What it returns answers
// as soon as a manager that it is added to starts, before there is anything in the manager's caches, and until all else
// has stopped. what names it in errors and logs.
func Serve(ctx context.Context, what, address string, server *http.Server) (*manager.Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", what, err)
	}
	server.Addr = listener.Addr().String()
	return &manager.Server{Name: what, Server: server, Listener: listener, ShutdownTimeout: new(shutdownTimeout)}, nil
}
