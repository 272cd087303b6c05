package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	sampleEvery = 2 * time.Second
	// warmUp is the part of the samples that does not count: caches are filled then.
	warmUp = 0.2
	// A figure has grown that is larger at the end than at the beginning by this factor, and by this much besides.
	growthFactor = 1.25
	megabytes    = 16
	goroutines   = 50
)

// memory is what the first replica takes, measured again and again.
type memory struct {
	cancel context.CancelFunc
	ended  chan error
	// samples by what was measured, in the order of time.
	samples map[string][]float64
}

// begin measures until end.
func (m *memory) begin(ctx context.Context, r *testenv.Replica) {
	ctx, m.cancel = context.WithCancel(ctx)
	m.ended, m.samples = make(chan error, 1), map[string][]float64{}
	go func() { m.ended <- m.measure(ctx, r) }()
}

// end ends measuring, if it was begun.
func (m *memory) end() error {
	if m.cancel == nil {
		return nil
	}
	m.cancel()
	return <-m.ended
}

func (m *memory) measure(ctx context.Context, r *testenv.Replica) error {
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		if err := m.sample(ctx, r); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *memory) sample(ctx context.Context, r *testenv.Replica) error {
	routines, err := r.Metric(ctx, "go_goroutines")
	if err != nil {
		return err
	}
	processes, err := r.Children()
	if err != nil {
		return err
	}
	processes["host"] = []int{r.Pid()}
	sample := map[string]float64{"goroutines of the host": routines}
	for name, pids := range processes {
		for _, pid := range pids {
			resident, err := residentMegabytes(pid)
			if err != nil {
				return err
			}
			sample["MiB of "+name] += resident
		}
	}
	for what, value := range sample {
		m.samples[what] = append(m.samples[what], value)
	}
	return nil
}

// residentMegabytes is what a process has in memory; 0 if it has ended.
func residentMegabytes(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // the second if it ends while it is read
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kilobytes); err == nil {
			return kilobytes / 1024, nil
		}
	}
	return 0, nil
}

// figure is how something that was measured has developed.
type figure struct {
	what string
	// start and end are medians, of the first and the last quarter of the samples after the warm-up.
	start, end float64
}

// grown tells whether it has become more than chance makes it.
func (f figure) grown() bool {
	allowed := float64(megabytes)
	if !strings.HasPrefix(f.what, "MiB") {
		allowed = goroutines
	}
	return f.end > f.start*growthFactor && f.end > f.start+allowed
}

// figures are what was measured, by their names.
func (m *memory) figures() (all []figure) {
	for what, samples := range m.samples {
		samples = samples[int(float64(len(samples))*warmUp):]
		quarter := max(1, len(samples)/4)
		all = append(all, figure{what: what, start: median(samples[:quarter]), end: median(samples[len(samples)-quarter:])})
	}
	slices.SortFunc(all, func(a, b figure) int { return strings.Compare(a.what, b.what) })
	return all
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
