package watch

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// proxy passes connections on to the API server, and can break them.
type proxy struct {
	testing.TB

	target, address string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
	all      sync.WaitGroup
}

func newProxy(t testing.TB) *proxy {
	t.Helper()
	server, err := url.Parse(plugintest.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{TB: t, target: server.Host, address: "127.0.0.1:0", open: map[net.Conn]struct{}{}}
	p.up()
	p.address = p.listener.Addr().String()
	t.Cleanup(func() {
		p.down()
		p.all.Wait()
	})
	return p
}

// config is the shared cluster's by way of the proxy.
func (p *proxy) config() *rest.Config {
	config := rest.CopyConfig(plugintest.Config())
	config.Host = "https://" + p.address
	return config
}

// up takes connections.
func (p *proxy) up() {
	p.Helper()
	listener, err := (&net.ListenConfig{}).Listen(p.Context(), "tcp", p.address)
	if err != nil {
		p.Fatal(err)
	}
	p.mu.Lock()
	p.listener = listener
	p.mu.Unlock()
	p.all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.pass(conn) })
		}
	})
}

// down refuses connections, and breaks those that there are.
func (p *proxy) down() {
	p.mu.Lock()
	_ = p.listener.Close()
	p.mu.Unlock()
	p.breakAll()
}

// breakAll breaks all connections.
func (p *proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *proxy) pass(conn net.Conn) {
	server, err := (&net.Dialer{}).Dial("tcp", p.target)
	if err != nil {
		_ = conn.Close()
		return
	}
	p.mu.Lock()
	p.open[conn], p.open[server] = struct{}{}, struct{}{}
	p.mu.Unlock()
	p.all.Go(func() {
		_, _ = io.Copy(server, conn)
		_ = server.Close()
	})
	_, _ = io.Copy(conn, server)
	_ = conn.Close()
	p.mu.Lock()
	delete(p.open, conn)
	delete(p.open, server)
	p.mu.Unlock()
}
