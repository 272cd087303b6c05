package main

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/host/internal/observe"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/tracing"
)

// trace has jobs traced, if the configuration says where traces go.
func (h *host) trace(ctx context.Context) (err error) {
	t := h.settings.Tracing
	if t.Endpoint == "" {
		return nil
	}
	h.tracer, err = tracing.New(ctx, tracing.Options{
		Endpoint: t.Endpoint, Insecure: t.Insecure, SampleRatio: t.SampleRatio, Version: version, Instance: defaultIdentity(), Log: h.log,
	})
	return err
}

// observers hear what happens to jobs.
func (h *host) observers() *observe.Stream {
	observers := []observe.Observer{h.jobMetrics, h.lastJobs}
	if h.tracer != nil {
		observers = append(observers, h.tracer)
	}
	return observe.New(clock.RealClock{}, observers...)
}

// endTraces sends what is left of traces, even if ctx has ended.
func (h *host) endTraces(ctx context.Context) {
	if h.tracer != nil {
		h.tracer.Close(context.WithoutCancel(ctx))
	}
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
