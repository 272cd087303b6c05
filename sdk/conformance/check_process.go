package conformance

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// checkHandshake notes what Start has seen to.
func (e *examination) checkHandshake(context.Context) { e.pass(handshakeRules...) }

func (e *examination) checkRefusesStrangers(ctx context.Context) {
	e.pass(RuleRefusesStrangers)
	impostor, err := newIdentity()
	if err != nil {
		e.skip(RuleRefusesStrangers, err.Error())
		return
	}
	endpoint := e.plugin.run.endpoint
	for _, stranger := range []struct {
		name  string
		creds credentials.TransportCredentials
	}{
		{"a client without TLS", insecure.NewCredentials()},
		{"a client without a certificate", credentials.NewTLS(tlsConfig(endpoint.certificate))},
		{"a client with another certificate", credentials.NewTLS(forcing(impostor, tlsConfig(endpoint.certificate)))},
	} {
		if e.isAnswered(ctx, "unix://"+endpoint.socket, stranger.creds) {
			e.breaks(RuleRefusesStrangers, "%s got an answer", stranger.name)
		}
	}
}

// forcing makes a client show its certificate even to a server that says that it would not accept it.
func forcing(as *identity, config *tls.Config) *tls.Config {
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &as.certificate, nil }
	return config
}

func (e *examination) isAnswered(ctx context.Context, address string, creds credentials.TransportCredentials) bool {
	conn, err := dial(address, creds)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, e.limits.answer)
	defer cancel()
	_, err = deployerv1.NewDeployerServiceClient(conn).GetInfo(ctx, &deployerv1.GetInfoRequest{})
	return err == nil
}

// afresh starts the program anew for a check that a plugin may not survive.
func (e *examination) afresh(ctx context.Context, rule Rule, check func(p *Plugin) error) {
	p, err := Start(ctx, e.plugin.run.path, e.plugin.run.options)
	if err != nil {
		e.breaks(rule, "start the program another time: %v", err)
		return
	}
	defer p.Close() //nolint:contextcheck // it ends what was started, even after ctx has ended
	e.pass(rule)
	if err := check(p); err != nil {
		e.breaks(rule, "%v", err)
	}
}

func (e *examination) checkSignalsIgnored(ctx context.Context) {
	e.afresh(ctx, RuleSignalsIgnored, func(p *Plugin) error {
		for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
			if err := p.run.cmd.Process.Signal(signal); err != nil {
				return fmt.Errorf("send %s: %w", signal, err)
			}
			if p.run.ends(e.limits.settle) {
				return fmt.Errorf("%s ended the process", signal)
			}
			if _, err := p.getInfo(ctx); err != nil {
				return fmt.Errorf("the plugin does not answer after %s: %w", signal, err)
			}
		}
		return nil
	})
}

func (e *examination) checkEndsWhenTold(ctx context.Context) {
	e.afresh(ctx, RuleEndsWhenTold, func(p *Plugin) error {
		open, cancel := context.WithCancel(ctx)
		defer cancel()
		if _, err := p.service.Reconcile(open); err != nil {
			return fmt.Errorf("open a call: %w", err)
		}
		told, cancelTold := context.WithTimeout(ctx, e.limits.end)
		defer cancelTold()
		if err := shutdown(told, p.conn); err != nil {
			return fmt.Errorf("%s: %w", shutdownMethod, err)
		}
		return p.expectEnd(e.limits.end, "it was told to end")
	})
}

func (e *examination) checkEndsWithHost(ctx context.Context) {
	e.afresh(ctx, RuleEndsWithHost, func(p *Plugin) error {
		if err := p.run.lifeline.Close(); err != nil {
			return fmt.Errorf("close the lifeline: %w", err)
		}
		return p.expectEnd(e.limits.end, "its lifeline was closed")
	})
}

func (p *Plugin) expectEnd(within time.Duration, why string) error {
	if !p.run.ends(within) {
		return fmt.Errorf("the process still runs %s after %s", within, why)
	}
	return nil
}
