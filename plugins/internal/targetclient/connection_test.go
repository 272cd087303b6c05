package targetclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestDeadConnection has a connection that leads nowhere any more, while the target takes new ones.
func TestDeadConnection(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	server := newSlowServer(t, true)
	network := newNetwork(t, server.URL)
	client := mustGet(t, NewCache("test", WithClock(clock)), "https://"+network.listener.Addr().String())
	if err := get(t.Context(), client, "a"); err != nil {
		t.Fatal(err)
	}
	p := client.guard.pulse
	is := func(condition func() bool) func() bool {
		return func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return condition()
		}
	}
	clock.Step(patience)
	waitUntil(t, "the end of the look at an idle target", is(func() bool { return !p.armed }))

	network.freeze()
	done := make(chan error, 1)
	go func() { done <- get(t.Context(), client, "a") }()
	waitUntil(t, "the request to be sent", is(func() bool { return p.armed }))
	waitUntil(t, "its timeout and the look at the target to be set", func() bool { return clock.Waiters() == 2 })
	clock.Step(patience)
	waitUntil(t, "the probe", is(func() bool { return p.probing }))
	waitUntil(t, "the timeouts of both to be set", func() bool { return clock.Waiters() == 2 })
	clock.Step(probeTimeout)
	mustBeSilent(t, client, <-done, "no answer for 10s")
	// The transport takes a moment to see that the connection is not in use any more, so the first probe may get it again.
	waitUntil(t, "the end of silence", func() bool {
		clock.Step(time.Second)
		return get(t.Context(), client, "a") == nil
	})
}

// network passes connections on, until it freezes those that there are.
type network struct {
	listener net.Listener

	mu     sync.Mutex
	frozen *bool
	all    []net.Conn
}

func newNetwork(t *testing.T, server string) *network {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{listener: listener, frozen: new(bool)}
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).Dial("tcp", to.Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			n.mu.Lock()
			frozen := n.frozen
			n.all = append(n.all, client, server)
			n.mu.Unlock()
			passing.Go(func() { n.pass(server, client, frozen) })
			passing.Go(func() { n.pass(client, server, frozen) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		n.mu.Lock()
		for _, conn := range n.all {
			_ = conn.Close()
		}
		n.mu.Unlock()
		passing.Wait()
	})
	return n
}

// freeze swallows what comes over the connections that there are.
func (n *network) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	*n.frozen = true
	n.frozen = new(bool)
}

func (n *network) pass(to io.Writer, from io.Reader, frozen *bool) {
	buffer := make([]byte, 32*1024)
	for {
		count, err := from.Read(buffer)
		if err != nil {
			return
		}
		n.mu.Lock()
		swallow := *frozen
		n.mu.Unlock()
		if swallow {
			continue
		}
		if _, err := to.Write(buffer[:count]); err != nil {
			return
		}
	}
}

// TestAnswerWhileProbed has a request answered while a probe is not.
func TestAnswerWhileProbed(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Now())
	probing, fail := make(chan struct{}), make(chan struct{})
	p := newPulse(clock, func(context.Context, bool) error {
		probing <- struct{}{}
		<-fail
		return errors.New("failed")
	})
	cancelled := make(chan error, 2)
	answered, err := p.begin(func(err error) { cancelled <- err })
	if err != nil {
		t.Fatal(err)
	}
	p.sent(answered)
	clock.Step(patience)
	<-probing
	clock.Step(time.Second)
	p.heard()
	close(fail)
	waitUntil(t, "the end of the probe", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return !p.probing
	})
	select {
	case err := <-cancelled:
		t.Errorf("expected that an answer is a sign of life, but the request was cancelled: %v", err)
	default:
	}
	p.end(answered)
	if _, err := p.begin(func(error) {}); err != nil {
		t.Errorf("expected that an answer is a sign of life, but found %v", err)
	}
}
