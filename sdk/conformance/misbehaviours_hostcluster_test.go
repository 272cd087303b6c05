package conformance

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
)

func (s *service) Holdings(context.Context, *deployerv1.HoldingsRequest) (*deployerv1.HoldingsResponse, error) {
	if s.holds != nil {
		return s.holds()
	}
	return holding(&deployerv1.Holding{Namespace: "default", Name: "a", Uid: "1"}, &deployerv1.Holding{Namespace: "default", Name: "a", Uid: "1", JobId: "b"}), nil
}

func (s *service) Collect(context.Context, *deployerv1.CollectRequest) (*deployerv1.CollectResponse, error) {
	return &deployerv1.CollectResponse{}, nil
}

func holding(held ...*deployerv1.Holding) *deployerv1.HoldingsResponse {
	return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Held{Held: &deployerv1.HoldingList{Holdings: held}}}
}

// diesOfCluster is a plugin whose calls break off over some accesses to the host cluster.
func diesOfCluster(wrong func(*deployerv1.HostCluster) bool) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return handle(srv, &clusterStream{ServerStream: stream, wrong: wrong})
	})}
}

// clusterStream receives no start message with a wrong access.
type clusterStream struct {
	grpc.ServerStream

	wrong func(*deployerv1.HostCluster) bool
}

func (s *clusterStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	request, ok := m.(*deployerv1.HostMessage)
	if start := request.GetStart(); ok && start != nil && s.wrong(start.GetHostCluster()) {
		return status.Error(codes.Internal, "not in this cluster")
	}
	return nil
}

// tellsOfCluster is a plugin that says in its results what access it was given.
func tellsOfCluster() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		return handle(srv, &talkativeStream{ServerStream: stream})
	})}
}

// talkativeStream adds the kubeconfig to the messages of errors.
type talkativeStream struct {
	grpc.ServerStream

	cluster *deployerv1.HostCluster
}

func (s *talkativeStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if request, ok := m.(*deployerv1.HostMessage); ok && request.GetStart() != nil {
		s.cluster = request.GetStart().GetHostCluster()
	}
	return err
}

func (s *talkativeStream) SendMsg(m any) error {
	if answer, ok := m.(*deployerv1.PluginMessage); ok {
		for _, e := range answer.GetResult().GetFailed().GetErrors() {
			e.Message += string(s.cluster.GetKubeconfig())
		}
	}
	return s.ServerStream.SendMsg(m)
}

// withHoldings is a plugin that answers so when it is asked what it keeps.
func withHoldings(answer *deployerv1.HoldingsResponse, err error) func(*service) {
	return func(s *service) {
		s.holds = func() (*deployerv1.HoldingsResponse, error) { return answer, err }
	}
}

func holdingsFailed(errs ...*deployerv1.Error) *deployerv1.HoldingsResponse {
	return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Failed{Failed: &deployerv1.Failed{Errors: errs}}}
}

var ofTheHostCluster = map[string]misbehaviour{
	"TellsOfToken": {
		reason:  "a message is shown to everybody",
		want:    []Rule{RuleHostCluster},
		options: tellsOfCluster(),
	},
	"FailsWithAccess": {
		reason:  "what it is asked for is the same",
		want:    []Rule{RuleHostCluster},
		options: diesOfCluster(func(c *deployerv1.HostCluster) bool { return c != nil }),
	},
	"HoldingWithoutUID": {
		reason:  "nobody could tell whether its item is gone",
		want:    []Rule{RuleHoldings},
		service: withHoldings(holding(&deployerv1.Holding{Namespace: "default", Name: "a"}), nil),
	},
	"HoldingsBreakOff": {
		reason:  "the host would ask again and again",
		want:    []Rule{RuleHoldings},
		service: withHoldings(nil, errors.New("no holdings")),
	},
	"HoldingsSayNothing": {
		reason:  "nothing is not the same as no holdings",
		want:    []Rule{RuleHoldings},
		service: withHoldings(&deployerv1.HoldingsResponse{}, nil),
	},
	"HoldingsFailWithoutReason": {
		reason:  "it would help nobody",
		want:    []Rule{RuleHoldings},
		service: withHoldings(holdingsFailed(&deployerv1.Error{Message: "no"}), nil),
	},
	"HoldingsFail": {
		reason:  "it may need what it was not granted",
		want:    nil,
		service: withHoldings(holdingsFailed(&deployerv1.Error{Reason: "NoAccess", Message: "it needs access to the host cluster"}), nil),
	},
	"HoldingsNotImplemented": {
		reason:  "it is claimed",
		want:    []Rule{RuleCapabilitiesTrue, RuleHoldings},
		service: withHoldings(nil, status.Error(codes.Unimplemented, "not yet")),
	},
	"CollectsUnclaimed": {
		reason: "the host would never ask",
		want:   []Rule{RuleCapabilitiesClaimed},
		service: func(s *service) {
			s.info = func(info *deployerv1.GetInfoResponse) { info.Capabilities.Collect = false }
		},
	},
}

func TestTokensOfHostCluster(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason, kubeconfig string
		want               []string
	}{
		"YAML":   {"as people write it", "users:\n- name: a\n  user: {token: one-token}\n- name: b\n  user: {token: abcdefgh}\n", []string{"one-token", "abcdefgh"}},
		"JSON":   {"as the host writes it", string(baitCluster().Kubeconfig), []string{"bait-7d20b9e6"}},
		"short":  {"anybody could say it by chance", `{"users":[{"user":{"token":"1234567"}}]}`, nil},
		"broken": {"it is of no use", "\x00", nil},
	} {
		var got []string
		for _, token := range tokensOf(&sdk.HostCluster{Kubeconfig: []byte(tc.kubeconfig)}) {
			got = append(got, string(token))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
	}
	if tokens := tokensOf(nil); tokens != nil {
		t.Errorf("expected none, but found %q", tokens)
	}
}
