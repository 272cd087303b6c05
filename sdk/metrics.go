package sdk

import (
	"context"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/internal/serving"
)

// MetricsGatherer is a prometheus.Gatherer, such as a *prometheus.Registry. The sdk does not depend on client_golang.
type MetricsGatherer interface {
	Gather() ([]*dto.MetricFamily, error)
}

// Metrics has the host show the plugin's own metrics beside its own, as plugin_NAME_METRIC, 1 MiB and 1,000 series at
// most. They must hold no secrets, and their labels no names of deploy items. By default, there are none.
func Metrics(g MetricsGatherer) Option {
	// A plugin without this option is linked without the format.
	return func(p *plugin) {
		p.Info.Capabilities.Metrics = true
		p.metrics = func() ([]byte, error) { return serving.Metrics(g.Gather) }
	}
}

// Metrics implements DeployerServiceServer.
func (s *server) Metrics(context.Context, *deployerv1.MetricsRequest) (*deployerv1.MetricsResponse, error) {
	if s.plugin.metrics == nil {
		return nil, s.unimplemented("Metrics")
	}
	families, err := guarded(s, s.log.With(operationKey, "Metrics"), "metrics", "Metrics", s.plugin.metrics)
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "metrics: %v", err)
	}
	return &deployerv1.MetricsResponse{Families: families}, nil
}
