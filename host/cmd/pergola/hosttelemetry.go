package main

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// trace has jobs traced, if the configuration says where traces go.
func (h *host) trace(ctx context.Context) (err error) {
	t := h.settings.Tracing
	if t.Endpoint == "" {
		return nil
	}
	h.tracer, err = telemetry.NewTracer(ctx, telemetry.TracerOptions{
		Endpoint: t.Endpoint, Insecure: t.Insecure, SampleRatio: t.SampleRatio, Version: version, Instance: defaultIdentity(), Log: h.log,
	})
	return err
}

// observers make something of what happens to jobs.
func (h *host) observers() *telemetry.Stream {
	return telemetry.NewStream(clock.RealClock{}, h.tracer, h.jobMetrics, h.lastJobs)
}

// serveProfiles has profiles of the host served, if the configuration says where.
func (h *host) serveProfiles(ctx context.Context) error {
	if h.settings.PprofAddress == "" {
		return nil
	}
	profiles, err := telemetry.ListenForProfiles(ctx, h.settings.PprofAddress)
	if err != nil {
		return err
	}
	h.log.Info("profiles are served", "address", profiles.Server.Addr)
	if err := h.manager.Add(profiles); err != nil {
		return fmt.Errorf("set up the host: %w", err)
	}
	return nil
}
