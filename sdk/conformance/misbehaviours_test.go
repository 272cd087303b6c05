package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

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

var misbehaviours = merged(
	ofTheProcess, ofTheInfo, ofTheHooks, ofRender, ofDiff, ofTheCalls, ofWhatIsSaid, ofConditions, ofQuestions, ofCredentials, ofTheHostCluster, ofTheDeployer,
)

func merged(groups ...map[string]misbehaviour) map[string]misbehaviour {
	all := map[string]misbehaviour{}
	for _, group := range groups {
		for name, m := range group {
			all[name] = m
		}
	}
	return all
}

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
		want:   []Rule{RuleHandshakeLine},
		program: &program{before: func() bool {
			_, _ = fmt.Fprintln(os.Stdout, "hello")
			return true
		}},
	},
	"EndsAtOnce": {
		reason:  "a program that just ends is no plugin",
		want:    []Rule{RuleHandshakeLine},
		program: &program{before: func() bool { return false }},
	},
	"NeverShakesHands": {
		reason:  "the host does not wait for ever",
		want:    []Rule{RuleHandshakeLine},
		program: &program{before: func() bool { forever(); return false }},
		limits:  func(l *limits) { l.start = time.Second },
	},
	"EndlessLine": {
		reason: "a line without an end must not fill the memory",
		want:   []Rule{RuleHandshakeLine},
		program: &program{before: func() bool {
			for {
				if _, err := os.Stdout.WriteString(strings.Repeat("1|", 1<<16)); err != nil {
					return false
				}
			}
		}},
	},
	"OtherCore":  {reason: "go-plugin has one core protocol", want: []Rule{RuleHandshakeLine}, program: &program{line: field(1, "2")}},
	"NetRPC":     {reason: "only gRPC is spoken", want: []Rule{RuleHandshakeLine}, program: &program{line: field(5, "netrpc")}},
	"NotOffered": {reason: "the host does not speak what it did not offer", want: []Rule{RuleHandshakeVersion}, program: &program{line: field(2, "2")}},
	"TCP": {
		reason:  "other users of the machine can connect to a port",
		want:    []Rule{RuleHandshakeSocket},
		program: &program{listen: func(string) (string, string) { return "tcp", "127.0.0.1:0" }},
	},
	"SocketElsewhere": {
		reason:  "only the directory of the host is closed to others, and removed",
		want:    []Rule{RuleHandshakeSocket},
		program: &program{line: field(4, "/tmp/../tmp/raw")},
	},
	"SocketOutside": {
		reason: "a path may leave the directory again",
		want:   []Rule{RuleHandshakeSocket},
		program: &program{line: func(fields []string) []string {
			fields[3] = filepath.Dir(fields[3]) + "/../raw"
			return fields
		}},
	},
	"NoCertificate":   {reason: "without TLS anybody can listen in", want: []Rule{RuleMutualTLS}, program: &program{line: field(6, "")}},
	"JunkCertificate": {reason: "the host has to know whom it talks to", want: []Rule{RuleMutualTLS}, program: &program{line: field(6, "AAAA")}},
	"OtherCertificate": {
		reason: "the host talks to the process that it has started",
		want:   []Rule{RuleMutualTLS},
		program: &program{tls: func(c *tls.Config) {
			if other, err := newIdentity(); err == nil {
				c.Certificates = []tls.Certificate{other.certificate}
			}
		}},
	},
	"TakesAnybody": {
		reason:  "who can reach the socket could deploy",
		want:    []Rule{RuleRefusesStrangers},
		program: &program{tls: func(c *tls.Config) { c.ClientAuth = tls.NoClientCert }},
	},
	"TakesAnyCertificate": {
		reason:  "a certificate is easily made",
		want:    []Rule{RuleRefusesStrangers},
		program: &program{tls: func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }},
	},
	"EndsWithSignal": {reason: "signals reach the whole group, and calls under way would break", want: []Rule{RuleSignalsIgnored}, program: &program{takesSignals: true}},
	"IgnoresShutdown": {
		reason:  "a plugin that does not end has to be killed",
		want:    []Rule{RuleEndsWhenTold},
		program: &program{shutdown: func() {}},
		limits:  func(l *limits) { l.end, l.grace = 5*time.Second, 100*time.Millisecond },
		// Only the process is of interest, and each end of one takes its time.
		noCase: true,
	},
	"OutlivesItsHost": {
		reason:  "nobody would end it, and it might go on to deploy",
		want:    []Rule{RuleEndsWithHost},
		program: &program{ignoresLifeline: true},
		limits:  func(l *limits) { l.end, l.grace = 5*time.Second, 100*time.Millisecond },
		noCase:  true,
	},
	"DiesOfAnItem": {
		reason:  "one bad item must not end the others",
		want:    []Rule{RuleItemInvalid},
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

func unimplemented(context.Context) (any, error) {
	return nil, status.Error(codes.Unimplemented, "not yet")
}

// sickDuringCalls says that it does not serve while a call is open.
func sickDuringCalls() []grpc.ServerOption {
	var open atomic.Int32
	sick := unary("Check", func(context.Context) (any, error) {
		health := grpc_health_v1.HealthCheckResponse_SERVING
		for range 100 { // the call may arrive a moment later than the question
			if open.Load() > 0 {
				health = grpc_health_v1.HealthCheckResponse_NOT_SERVING
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return &grpc_health_v1.HealthCheckResponse{Status: health}, nil
	})
	return append(sick, around(func(_ string, _ context.Context, handle func() error) error {
		open.Add(1)
		defer open.Add(-1)
		return handle()
	})...)
}

var ofTheInfo = map[string]misbehaviour{
	"Sick": {
		reason: "the host restarts a plugin that is not healthy",
		want:   []Rule{RuleHealth},
		options: unary("Check", func(context.Context) (any, error) {
			return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, nil
		}),
	},
	"SickDuringCalls": {reason: "a plugin that works is not a plugin that hangs", want: []Rule{RuleHealth}, options: sickDuringCalls()},
	"SaysNothing": {
		reason: "the host has to know whom it has started",
		want:   []Rule{RuleInfoAtOnce},
		options: unary("GetInfo", func(ctx context.Context) (any, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}),
		limits: func(l *limits) { l.answer = time.Second },
	},
	"NoName":      {reason: "the name prefixes the plugin's locks", want: []Rule{RuleInfoComplete}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Name = "" })},
	"NameNoLabel": {reason: "a name with capitals or dots is no DNS label", want: []Rule{RuleInfoComplete}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Name = "My.Deployer" })},
	"NamePath":    {reason: "a name must not become a path", want: []Rule{RuleInfoComplete}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Name = "../raw" })},
	"NoVersion":   {reason: "the version is written to the status of items", want: []Rule{RuleInfoComplete}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Version = "" })},
	"LongVersion": {reason: "the version is shown to people", want: []Rule{RuleInfoComplete}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Version = strings.Repeat("1", 1000) })},
	"EmptyAndDoubleType": {
		reason:  "each type has a name of its own",
		want:    []Rule{RuleInfoComplete},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = []string{rawType, "", rawType} }),
	},
	"NoTypesAndNoHooks": {
		reason:  "there is nothing to do for it",
		want:    []Rule{RuleInfoComplete, RuleSchemas},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.DeployItemTypes = nil }),
		noCase:  true,
	},
	"EmptyAndDoubleHookedType": {
		reason:  "each type has a name of its own",
		want:    []Rule{RuleInfoComplete},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.HookedDeployItemTypes = []string{rawType, "", rawType} }),
	},
	"HookedTypesWithoutHooks": {
		reason: "there is nothing that would run for them",
		want:   []Rule{RuleInfoComplete},
		service: func(s *service) {
			s.info = func(i *deployerv1.GetInfoResponse) {
				i.HookedDeployItemTypes, i.Capabilities.HookTypes = []string{rawType}, nil
			}
			s.outcomes = func(string) []*deployerv1.HookOutcome { return nil }
		},
	},
	"UnknownAndDoubleHookType": {
		reason: "what the host does not know it would never run",
		want:   []Rule{RuleInfoComplete, RuleHooksAnswer},
		service: withInfo(func(i *deployerv1.GetInfoResponse) {
			i.Capabilities.HookTypes = []string{"Start", "End", "BeforeDeploy", "End"}
		}),
	},
	"OtherEachTime": {
		reason: "a plugin that was restarted has to be the same",
		want:   []Rule{RuleInfoSame},
		service: func(s *service) {
			var asked atomic.Int32
			s.info = func(i *deployerv1.GetInfoResponse) { i.Version = fmt.Sprint(asked.Add(1)) }
		},
	},
	"SchemaNoJSON": {reason: "a schema is for programs", want: []Rule{RuleSchemas}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.ConfigurationSchema = []byte("free text") })},
	"SchemaOfOthers": {
		reason: "what it does not serve is not its own to describe",
		want:   []Rule{RuleSchemas},
		service: withInfo(func(i *deployerv1.GetInfoResponse) {
			i.ProviderConfigurationSchemas["example.org/other"] = []byte("{}")
		}),
	},
	"ConfiguredOnce": {
		reason: "the host configures each process, and may do so again",
		want:   []Rule{RuleConfigure},
		service: func(s *service) {
			var asked atomic.Int32
			s.configure = func([]byte) (*deployerv1.ConfigureResponse, error) {
				if asked.Add(1) > 1 {
					return nil, errors.New("already configured")
				}
				return &deployerv1.ConfigureResponse{}, nil
			}
		},
	},
	"ConfiguredWithAnything": {
		reason: "a misspelt field must not pass unnoticed",
		want:   []Rule{RuleConfigureStrict},
		service: func(s *service) {
			s.configure = func([]byte) (*deployerv1.ConfigureResponse, error) { return &deployerv1.ConfigureResponse{}, nil }
		},
	},
	"ClaimsRender":    {reason: "the host relies on what is claimed", want: []Rule{RuleCapabilitiesTrue}, options: unary("Render", unimplemented)},
	"ClaimsDiff":      {reason: "the host relies on what is claimed", want: []Rule{RuleCapabilitiesTrue}, options: unary("Diff", unimplemented)},
	"ClaimsValidate":  {reason: "the host relies on what is claimed", want: []Rule{RuleCapabilitiesTrue}, options: unary("Validate", unimplemented)},
	"ClaimsConfigure": {reason: "the host relies on what is claimed", want: []Rule{RuleCapabilitiesTrue}, options: unary("Configure", unimplemented)},
	"ClaimsForceReconcile": {
		reason: "the host relies on what is claimed",
		want:   []Rule{RuleCapabilitiesTrue},
		options: around(func(method string, _ context.Context, handle func() error) error {
			if method == "ForceReconcile" {
				return status.Error(codes.Unimplemented, "not yet")
			}
			return handle()
		}),
	},
	"ClaimsWatch": {
		reason: "the host relies on what is claimed",
		want:   []Rule{RuleCapabilitiesTrue},
		service: func(s *service) {
			s.watch = func(context.Context) error { return status.Error(codes.Unimplemented, "not yet") }
		},
	},
	"ClaimsSeparateDocuments": {
		reason:  "the host sends them only where they are taken",
		want:    []Rule{RuleSeparateDocuments},
		service: func(s *service) { s.onlyWhole = true },
	},
	"HidesAbort": {reason: "what is not claimed is not used", want: []Rule{RuleCapabilitiesClaimed}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Capabilities.Abort = false })},
	"HidesDiff":  {reason: "what is not claimed is not used", want: []Rule{RuleCapabilitiesClaimed}, service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Capabilities.Diff = false })},
	"HidesWatch": {
		reason:  "what is not claimed is not used",
		want:    []Rule{RuleCapabilitiesClaimed},
		service: withInfo(func(i *deployerv1.GetInfoResponse) { i.Capabilities.Watch = false }),
		limits:  func(l *limits) { l.probe = 5 * time.Second },
	},
	"HidesConfigure": {
		reason: "an operator who configures it must hear that it takes none",
		want:   []Rule{RuleCapabilitiesClaimed},
		service: func(s *service) {
			s.info = func(i *deployerv1.GetInfoResponse) { i.Capabilities.Configure = false }
			s.configure = func([]byte) (*deployerv1.ConfigureResponse, error) { return &deployerv1.ConfigureResponse{}, nil }
		},
	},
	"StopsWatching": {
		reason:  "the host would ask again and again",
		want:    []Rule{RuleWatchStaysOpen},
		service: func(s *service) { s.watch = func(context.Context) error { return nil } },
		// The end of the stream may arrive late.
		limits: func(l *limits) { l.settle = 30 * time.Second },
	},
}
