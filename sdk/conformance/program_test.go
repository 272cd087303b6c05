package conformance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// misbehaviourEnv makes the test binary a plugin that misbehaves as its value says.
const misbehaviourEnv = "CONFORMANCE_MISBEHAVIOUR"

func TestMain(m *testing.M) {
	name, isPlugin := os.LookupEnv(misbehaviourEnv)
	if !isPlugin {
		_ = flag.Set("test.parallel", "8") // nearly all of the tests' time is waiting
		os.Exit(m.Run())
	}
	notePid()
	if os.Getenv(childEnv) != "" {
		forever()
	}
	if err := runProgram(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// program is a plugin without the sdk, and so can break rules of a process. The zero value keeps them.
type program struct {
	// before is done before the handshake; false ends the program.
	before func() bool
	// line replaces the fields of the handshake.
	line func(fields []string) []string
	// listen replaces the network and the address of the socket.
	listen func(dir string) (network, address string)
	// tls changes how it serves.
	tls func(*tls.Config)
	// takesSignals leaves signals to end the process.
	takesSignals bool
	// shutdown replaces what is done when the host ends the plugin.
	shutdown func()
	// ignoresLifeline lets it live on without a host.
	ignoresLifeline bool
}

func runProgram(name string) error {
	m := misbehaviours[name]
	if name == "hangs" {
		m = hanging
	}
	p, s := m.program, &service{}
	if p == nil {
		p = &program{}
	}
	if m.service != nil {
		m.service(s)
	}
	if p.before != nil && !p.before() {
		return nil
	}
	if !p.takesSignals {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
	}
	if !p.ignoresLifeline {
		go endWithHost()
	}
	identity, _, err := handshake.ClientTLS()
	if err != nil {
		return err
	}
	network, address := "unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "raw")
	if p.listen != nil {
		network, address = p.listen(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), network, address)
	if err != nil {
		return err
	}
	server := newServer(s, append(m.options, grpc.Creds(credentials.NewTLS(p.tlsConfig(identity))))...)
	shutdown := p.shutdown
	if shutdown == nil {
		shutdown = func() { os.Exit(0) }
	}
	registerController(server, shutdown)
	fields := []string{
		"1", "1", network, listener.Addr().String(), "grpc",
		base64.RawStdEncoding.EncodeToString(identity.Certificates[0].Certificate[0]),
	}
	if p.line != nil {
		fields = p.line(fields)
	}
	if _, err := fmt.Fprintln(os.Stdout, strings.Join(fields, "|")); err != nil {
		return err
	}
	return server.Serve(listener)
}

func (p *program) tlsConfig(own *tls.Config) *tls.Config {
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	config := &tls.Config{
		Certificates: own.Certificates, MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	if p.tls != nil {
		p.tls(config)
	}
	return config
}

func endWithHost() {
	fd, err := strconv.Atoi(os.Getenv(handshake.LifelineEnv))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, os.NewFile(uintptr(fd), "lifeline"))
	os.Exit(3)
}

// newServer serves everything but the controller.
func newServer(s *service, options ...grpc.ServerOption) *grpc.Server {
	options = append([]grpc.ServerOption{grpc.MaxRecvMsgSize(handshake.MaxMessageBytes)}, options...)
	server := grpc.NewServer(options...)
	deployerv1.RegisterDeployerServiceServer(server, s)
	healthServer := health.NewServer()
	healthServer.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, healthServer)
	return server
}

func registerController(server *grpc.Server, shutdown func()) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Shutdown",
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				if err := decode(&emptypb.Empty{}); err != nil {
					return nil, err
				}
				shutdown()
				return &emptypb.Empty{}, nil
			},
		}},
	}, nil)
}

// serveAttachable serves in this process and returns the address.
func serveAttachable(t *testing.T, s *service, options ...grpc.ServerOption) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "raw") //nolint:usetesting // its names do not fit into the address of a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(s, options...)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
		_ = os.RemoveAll(dir)
	})
	return "unix://" + socket
}

func testBinary(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
