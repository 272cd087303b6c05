package forward_test

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/pergola-deploy/pergola/test/cluster/internal/forward"
)

func TestServePassesBothWaysUntilTheContextEnds(t *testing.T) {
	target, front := listen(t), listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- forward.Serve(ctx, front, target.Addr().String()) }()

	client, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	server, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()

	send(t, client, server, "question")
	// The end of one way leaves the other open.
	if err := client.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(server); err != nil || len(rest) > 0 {
		t.Errorf("server reads %q, %v after the client has finished, want the end", rest, err)
	}
	send(t, server, client, "answer")

	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v, want nil when the context ends", err)
	}
	if _, err := net.Dial("tcp", front.Addr().String()); err == nil {
		t.Error("the listener is open after Serve")
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

func send(t *testing.T, from, to net.Conn, message string) {
	t.Helper()
	if _, err := io.WriteString(from, message); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(message))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != message {
		t.Errorf("received %q, %v, want %q", got, err, message)
	}
}
