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
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pergola-deploy/pergola/proto/handshake"
)

const (
	// misbehaviourEnv makes the test binary a plugin that misbehaves as its value says.
	misbehaviourEnv = "CONFORMANCE_MISBEHAVIOUR"
	// pidFileEnv names a file to which a plugin and its children append their process ids.
	pidFileEnv = "CONFORMANCE_PID_FILE"
	// childEnv makes the test binary a process that does nothing.
	childEnv = "CONFORMANCE_CHILD"
)

func TestMain(m *testing.M) {
	name, isPlugin := os.LookupEnv(misbehaviourEnv)
	if !isPlugin {
		_ = flag.Set("test.parallel", "8") // nearly all of the tests' time is waiting
		os.Exit(m.Run())
	}
	if file, err := os.OpenFile(os.Getenv(pidFileEnv), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		_, _ = fmt.Fprintln(file, os.Getpid())
		_ = file.Close()
	}
	for os.Getenv(childEnv) != "" {
		time.Sleep(time.Hour)
	}
	if err := misbehaviours()[name].runProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// program is how a fake runs as a process of its own. The zero value keeps the rules.
type program struct {
	before          func() // is called before the handshake
	network         string // of the socket, if it is not unix
	noCertificate   bool   // in the handshake
	clients         func(*tls.Config)
	takesSignals    bool
	ignoresShutdown bool
	ignoresLifeline bool
}

func (m misbehaviour) runProgram() error {
	p := m.program
	if p == nil {
		p = &program{}
	}
	if p.before != nil {
		p.before()
	}
	if !p.takesSignals {
		signal.Ignore(syscall.SIGTERM, os.Interrupt)
	}
	if fd, err := strconv.Atoi(os.Getenv(handshake.LifelineEnv)); err == nil && !p.ignoresLifeline {
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(uintptr(fd), "lifeline"))
			os.Exit(3)
		}()
	}
	config, _, err := handshake.ClientTLS()
	if err != nil {
		return err
	}
	config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	config.ClientCAs.AppendCertsFromPEM([]byte(os.Getenv("PLUGIN_CLIENT_CERT")))
	if p.clients != nil {
		p.clients(config)
	}
	network, address := "unix", filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "fake")
	if p.network != "" {
		network, address = p.network, "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), network, address)
	if err != nil {
		return err
	}
	server := newServer(m, grpc.Creds(credentials.NewTLS(config)))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{
			MethodName: "Shutdown",
			Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
				if !p.ignoresShutdown {
					os.Exit(0)
				}
				return &emptypb.Empty{}, nil
			},
		}},
	}, nil)
	certificate := base64.RawStdEncoding.EncodeToString(config.Certificates[0].Certificate[0])
	if p.noCertificate {
		certificate = ""
	}
	fields := []string{"1", "1", network, listener.Addr().String(), "grpc", certificate}
	if _, err := fmt.Fprintln(os.Stdout, strings.Join(fields, "|")); err != nil {
		return err
	}
	return server.Serve(listener)
}

// startChild starts a process that holds the output of this one.
func startChild() {
	child := exec.CommandContext(context.Background(), os.Args[0]) // it outlives this process
	child.Env = append(os.Environ(), childEnv+"=1")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

func testBinary(t *testing.T) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
