package launch

import (
	"context"
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// Answered names the clients other than the host that get an answer of the program in time.
func (p *Program) Answered(ctx context.Context, within time.Duration) (names []string) {
	for name, creds := range p.strangers() {
		conn, err := grpc.NewClient("unix://"+p.socket, grpc.WithTransportCredentials(creds))
		if err != nil {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, within)
		if _, err := deployerv1.NewDeployerServiceClient(conn).GetInfo(asking, &deployerv1.GetInfoRequest{}); err == nil {
			names = append(names, name)
		}
		cancel()
		_ = conn.Close() // a failure has no effect
	}
	return names
}

// strangers are the credentials of clients other than the host.
func (p *Program) strangers() map[string]credentials.TransportCredentials {
	anonymous := p.tls.Clone()
	anonymous.Certificates = nil
	impostor := anonymous.Clone()
	// The certificate is shown even to a server that says that it would not accept it.
	impostor.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		other, _, err := handshake.ClientTLS()
		if err != nil {
			return nil, err
		}
		return &other.Certificates[0], nil
	}
	return map[string]credentials.TransportCredentials{
		"a client without TLS":              insecure.NewCredentials(),
		"a client without a certificate":    credentials.NewTLS(anonymous),
		"a client with another certificate": credentials.NewTLS(impostor),
	}
}
