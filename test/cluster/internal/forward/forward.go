// Package forward passes TCP connections on to another address.
package forward

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const dialTimeout = 10 * time.Second

// Serve accepts connections from the listener and passes each on to the target
// address until the context ends; then it closes the listener and every
// connection, and returns nil. It owns the listener.
func Serve(ctx context.Context, listener net.Listener, target string) error {
	ctx, cancel := context.WithCancel(ctx)
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel()
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept connection: %w", err)
		}
		connections.Go(func() { pass(ctx, client, target) })
	}
}

// pass copies both ways until both sides have finished sending, or the context
// ends. A target that cannot be reached is the client's to notice, by its
// connection being closed.
func pass(ctx context.Context, client net.Conn, target string) {
	defer func() { _ = client.Close() }()
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer stop()
	var ways sync.WaitGroup
	ways.Go(func() { copyOneWay(server, client) })
	ways.Go(func() { copyOneWay(client, server) })
	ways.Wait()
}

// copyOneWay copies until the source has finished sending and tells the
// destination so, which leaves the other way open.
func copyOneWay(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
