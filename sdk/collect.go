package sdk

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

func (s *server) Holdings(ctx context.Context, in *deployerv1.HoldingsRequest) (*deployerv1.HoldingsResponse, error) {
	collector, ok := s.deployer.(Collector)
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "plugin %q does not collect", s.name)
	}
	log := s.log.With("operation", "Holdings")
	out, err := func() (out *deployerv1.HoldingsResponse, err error) {
		defer s.recover("Holdings", log, &err)
		res, err := collector.Holdings(ctx, &HoldingsRequest{HostCluster: hostClusterFromWire(in.GetHostCluster()), Log: log})
		return heldToWire(res, err), nil
	}()
	if err != nil {
		return heldToWire(nil, err), nil
	}
	return out, nil
}

func (s *server) Collect(ctx context.Context, in *deployerv1.CollectRequest) (*deployerv1.CollectResponse, error) {
	collector, ok := s.deployer.(Collector)
	if !ok {
		return nil, status.Errorf(codes.Unimplemented, "plugin %q does not collect", s.name)
	}
	log := s.log.With("operation", "Collect")
	out, err := func() (out *deployerv1.CollectResponse, err error) {
		defer s.recover("Collect", log, &err)
		return collectedToWire(collector.Collect(ctx, &CollectRequest{
			Holdings:    holdingsFromWire(in.GetHoldings()),
			HostCluster: hostClusterFromWire(in.GetHostCluster()),
			Log:         log,
		})), nil
	}()
	if err != nil {
		return collectedToWire(err), nil
	}
	return out, nil
}

// heldToWire describes how Holdings ended.
func heldToWire(res *HoldingsResponse, err error) *deployerv1.HoldingsResponse {
	if err != nil {
		return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Failed{Failed: failedToWire("Holdings", err)}}
	}
	held := &deployerv1.HoldingList{}
	if res != nil {
		for _, h := range res.Holdings {
			held.Holdings = append(held.Holdings, &deployerv1.Holding{
				Namespace: validText(h.Namespace), Name: validText(h.Name), Uid: validText(string(h.UID)), JobId: validText(h.JobID),
			})
		}
	}
	return &deployerv1.HoldingsResponse{Outcome: &deployerv1.HoldingsResponse_Held{Held: held}}
}

// collectedToWire describes how Collect ended.
func collectedToWire(err error) *deployerv1.CollectResponse {
	if err != nil {
		return &deployerv1.CollectResponse{Failed: failedToWire("Collect", err)}
	}
	return &deployerv1.CollectResponse{}
}

func holdingsFromWire(in []*deployerv1.Holding) []Holding {
	out := make([]Holding, 0, len(in))
	for _, h := range in {
		out = append(out, Holding{Namespace: h.GetNamespace(), Name: h.GetName(), UID: types.UID(h.GetUid()), JobID: h.GetJobId()})
	}
	return out
}
