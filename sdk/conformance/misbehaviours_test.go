package conformance

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// misbehaviour is a plugin that breaks some rules and keeps all others.
type misbehaviour struct {
	reason string
	want   []Rule
	// program makes it a process of its own; nil for a plugin that is attached to.
	program *program
	service func(*service)
	options []grpc.ServerOption
	// limits are shorter ones, for what is broken by waiting.
	limits func(*limits)
	// timeout of the jobs of the case; zero for a long one.
	timeout time.Duration
	// noCase checks it without a deploy item.
	noCase bool
}

var misbehaviours = func() map[string]misbehaviour {
	all := map[string]misbehaviour{}
	for _, group := range []map[string]misbehaviour{
		ofTheProcess, ofTheInfo, ofAnswers, ofTheCalls, ofWhatIsSaid, ofTheDeployer,
	} {
		maps.Copy(all, group)
	}
	return all
}()

func field(number int, value string) func([]string) []string {
	return func(fields []string) []string {
		fields[number-1] = value
		return fields
	}
}

// forever blocks, and is not taken for a deadlock.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

var ofTheProcess = map[string]misbehaviour{
	"RubbishFirst": {
		reason: "the host reads the first line and no other",
		want:   []Rule{RuleHandshake},
		program: &program{before: func() bool {
			_, _ = fmt.Fprintln(os.Stdout, "hello")
			return true
		}},
	},
	"EndsAtOnce": {
		reason:  "a program that just ends is no plugin",
		want:    []Rule{RuleHandshake},
		program: &program{before: func() bool { return false }},
	},
	"TCP": {
		reason:  "other users of the machine can connect to a port",
		want:    []Rule{RuleHandshake},
		program: &program{listen: func(string) (string, string) { return "tcp", "127.0.0.1:0" }},
	},
	"NoCertificate": {
		reason:  "without TLS anybody can listen in",
		want:    []Rule{RuleMutualTLS},
		program: &program{line: field(6, "")},
	},
	"TakesAnybody": {
		reason:  "who can reach the socket could deploy",
		want:    []Rule{RuleMutualTLS},
		program: &program{tls: func(c *tls.Config) { c.ClientAuth = tls.NoClientCert }},
	},
	"TakesAnyCertificate": {
		reason:  "a certificate is easily made",
		want:    []Rule{RuleMutualTLS},
		program: &program{tls: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }},
	},
	"EndsWithSignal": {
		reason:  "signals reach the whole group, and calls under way would break",
		want:    []Rule{RuleSignalsIgnored},
		program: &program{takesSignals: true},
		limits:  func(l *limits) { l.pause = 5 * time.Second },
		noCase:  true,
	},
	"IgnoresShutdown": {
		reason:  "a plugin that does not end has to be killed",
		want:    []Rule{RuleEndsWhenTold},
		program: &program{shutdown: func() {}},
		limits:  func(l *limits) { l.end = 2 * time.Second },
		// Only the process is of interest, and each end of one takes its time.
		noCase: true,
	},
	"OutlivesItsHost": {
		reason:  "nobody would end it, and it might go on to deploy",
		want:    []Rule{RuleEndsWithHost},
		program: &program{ignoresLifeline: true},
		limits:  func(l *limits) { l.end = 2 * time.Second },
		noCase:  true,
	},
	"DiesOfAnItem": {
		reason:  "one bad item must not end the others",
		want:    []Rule{RuleStartFirst},
		program: &program{},
		service: func(s *service) {
			s.invalidItem = func() (*deployerv1.Result, error) {
				os.Exit(1)
				return nil, nil
			}
		},
	},
}

func withInfo(change func(*deployerv1.GetInfoResponse)) func(*service) {
	return func(s *service) { s.info = change }
}

// unary replaces the answer of one method.
func unary(method string, answer func(context.Context) (any, error)) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			if !strings.HasSuffix(info.FullMethod, "/"+method) {
				return handler(ctx, req)
			}
			return answer(ctx)
		},
	)}
}

// around wraps each call of an operation.
func around(wrap func(method string, ctx context.Context, handle func() error) error) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainStreamInterceptor(
		func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			if strings.HasSuffix(info.FullMethod, "/Watch") {
				return handler(srv, stream)
			}
			method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
			return wrap(method, stream.Context(), func() error { return handler(srv, stream) })
		},
	)}
}

var ofTheInfo = map[string]misbehaviour{
	"Sick": {
		reason: "the host restarts a plugin that is not healthy",
		want:   []Rule{RuleHealth},
		options: unary("Check", func(context.Context) (any, error) {
			return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
		}),
	},
	"SaysNothing": {
		reason: "the host has to know whom it has started",
		want:   []Rule{RuleInfo},
		options: unary("GetInfo", func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		limits: func(l *limits) { l.answer = time.Second },
	},
	"NameNoLabel": {
		reason:  "a name with capitals or dots is no DNS label",
		want:    []Rule{RuleInfo},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Name = "My.Deployer" }),
	},
	"EmptyAndDoubleType": {
		reason:  "each type has a name of its own",
		want:    []Rule{RuleInfo},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = []string{rawType, "", rawType} }),
	},
	"UnknownAndDoubleHookType": {
		reason: "what the host does not know it would never run",
		want:   []Rule{RuleInfo},
		service: withInfo(func(i *deployerv1.GetInfoResponse) {
			i.Capabilities.HookTypes = []string{"Start", "End", "BeforeDeploy", "End"}
		}),
	},
	"OtherEachTime": {
		reason: "a plugin that was restarted has to be the same",
		want:   []Rule{RuleInfo},
		service: func(s *service) {
			var asked atomic.Int32
			s.info = func(i *deployerv1.GetInfoResponse) { i.Version = fmt.Sprint(asked.Add(1)) }
		},
	},
	"SchemaNoJSON": {
		reason:  "a schema is for programs",
		want:    []Rule{RuleInfo},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.ConfigurationSchema = []byte("free text") }),
	},
	"ConfiguredWithAnything": {
		reason: "a misspelt field must not pass unnoticed",
		want:   []Rule{RuleConfigure},
		service: func(s *service) {
			s.configure = func() (*deployerv1.ConfigureResponse, error) { return &deployerv1.ConfigureResponse{}, nil }
		},
	},
}
