package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// health is a health service that answers in one way.
type health struct {
	grpc_health_v1.HealthClient

	answer grpc_health_v1.HealthCheckResponse_ServingStatus
	err    error
}

func (h health) Check(context.Context, *grpc_health_v1.HealthCheckRequest,
	...grpc.CallOption) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: h.answer}, h.err
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		health health
		well   bool
	}{
		"serving":     {"it says so", health{answer: grpc_health_v1.HealthCheckResponse_SERVING}, true},
		"not serving": {"it says so", health{answer: grpc_health_v1.HealthCheckResponse_NOT_SERVING}, false},
		"unknown":     {"it answers", health{answer: grpc_health_v1.HealthCheckResponse_UNKNOWN}, true},
		"no service": {"it answers, though it should have the service", health{err: status.Error(codes.Unimplemented, "")},
			true},
		"unhealthy": {"it says so", health{err: status.Error(codes.FailedPrecondition, "")}, false},
		"late":      {"no answer", health{err: status.Error(codes.DeadlineExceeded, "")}, false},
		"gone":      {"no answer", health{err: status.Error(codes.Unavailable, "")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &Session{health: test.health}
			if err := s.Check(t.Context(), time.Minute); (err == nil) != test.well {
				t.Errorf("%s: found: %v", test.reason, err)
			}
		})
	}
}

// After a kill each call is the cause, unless another one surely is.
func TestErrorOfACall(t *testing.T) {
	t.Parallel()
	own, killed := newConversation(nil), errors.New("it was killed")
	for name, test := range map[string]struct {
		reason  string
		ending  *ending
		running int
		want    error
		not     error
	}{
		"exit":        {"it ended by itself", &ending{}, 1, ErrCrashed, ErrBeside},
		"exit of two": {"each may be the cause", &ending{}, 2, ErrBeside, ErrNotRunning},
		"own silence": {"the plugin was silent in the call",
			&ending{killed: killed, blame: Blame{others: true, call: own}}, 2, ErrCrashed, ErrBeside},
		"another call": {"the plugin was silent in another one",
			&ending{killed: killed, blame: Blame{others: true, call: newConversation(nil)}}, 2, ErrUnhealthy, ErrCrashed},
		"cancelled call": {"it runs no more", &ending{killed: killed, blame: BlameNone()}, 1, ErrUnhealthy, ErrCrashed},
		"each":           {"no health check was answered", &ending{killed: killed}, 2, ErrBeside, ErrNotRunning},
		"stopped":        {"the host ends it in order", &ending{stopped: true}, 1, ErrNotRunning, ErrCrashed},
	} {
		if err := test.ending.errorOf(own, test.running); !errors.Is(err, test.want) || errors.Is(err, test.not) {
			t.Errorf("%s: %s: expected %v, but found: %v", name, test.reason, test.want, err)
		}
	}
}

// The first problems of a configuration tell enough.
func TestProblemsOfAConfiguration(t *testing.T) {
	t.Parallel()
	problem := &deployerv1.Problem{Field: strings.Repeat("f", 1000), Message: strings.Repeat("m", 1<<20)}
	err := problemsOf(&deployerv1.ConfigureResponse{
		Problems: slices.Repeat([]*deployerv1.Problem{problem}, maxProblems+3),
	})
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 3 more") ||
		len(err.Error()) > 2*maxProblems*hostside.MaxMessage {
		t.Errorf("expected the first problems, cut, but found %.1000v", err)
	}
	if err := problemsOf(&deployerv1.ConfigureResponse{}); err != nil {
		t.Errorf("expected no problem, but found %v", err)
	}
	err = problemsOf(&deployerv1.ConfigureResponse{Problems: []*deployerv1.Problem{
		{Field: "a.b", Message: "unknown field"}, {Message: "is no YAML"}, // about the whole
	}})
	if err == nil || err.Error() != "a.b: unknown field\nis no YAML" {
		t.Errorf("expected the paths of fields, and nothing without one, but found %v", err)
	}
}

func progress(step, message string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_Progress{
		Progress: &deployerv1.Progress{Step: step, Message: message},
	}}
}

func resolveTarget(sequence uint64, name string) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ResolveTarget{
		ResolveTarget: &deployerv1.ResolveTarget{Sequence: sequence, Name: name},
	}}
}

func saved(sequence uint64) *deployerv1.PluginMessage {
	return &deployerv1.PluginMessage{Content: &deployerv1.PluginMessage_ProviderStatus{
		ProviderStatus: &deployerv1.ProviderStatus{Sequence: sequence, Document: []byte("{}")},
	}}
}

// observer is made of functions; a call for which there is none is not expected.
type observer struct {
	progress func(step, message string)
	save     func(ctx context.Context, document []byte) error
	resolve  func(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error)
	secret   func(ctx context.Context, secret types.NamespacedName) (*sdk.RegistryCredentials, error)
	event    func(warning bool, reason, message string)
}

func (o *observer) Progress(step, message string) { o.progress(step, message) }

func (o *observer) Event(warning bool, reason, message string) { o.event(warning, reason, message) }

func (o *observer) SaveProviderStatus(ctx context.Context, document []byte) error {
	return o.save(ctx, document)
}

func (o *observer) ResolveTarget(ctx context.Context, name string) (*v1alpha1.ResolvedTarget, error) {
	return o.resolve(ctx, name)
}

func (o *observer) ResolveRegistryCredentials(ctx context.Context, secret types.NamespacedName) (
	*sdk.RegistryCredentials, error,
) {
	return o.secret(ctx, secret)
}
