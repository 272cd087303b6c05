package statuspage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// Limits are the limits of a plugin for its calls, in its own words. Zero stands for none.
type Limits struct {
	MaxCalls          int `json:"maxCalls,omitempty"`
	MaxCallsPerTarget int `json:"maxCallsPerTarget,omitempty"`
	// Timeouts of jobs without spec.timeout, by type.
	Timeouts map[string]string `json:"timeouts,omitempty"`
}

// LimitsOf returns the limits of a plugin for people and scripts.
func LimitsOf(l plugin.Limits) Limits {
	limits := Limits{MaxCalls: l.MaxCalls, MaxCallsPerTarget: l.MaxCallsPerTarget}
	for t, timeout := range l.Timeouts {
		if limits.Timeouts == nil {
			limits.Timeouts = map[string]string{}
		}
		limits.Timeouts[string(t)] = timeout.String()
	}
	return limits
}

// DescribeLimits lists the limits; empty for none.
func (l Limits) DescribeLimits() string {
	var parts []string
	if l.MaxCalls > 0 {
		parts = append(parts, fmt.Sprintf("calls=%d", l.MaxCalls))
	}
	if l.MaxCallsPerTarget > 0 {
		parts = append(parts, fmt.Sprintf("calls/Target=%d", l.MaxCallsPerTarget))
	}
	for _, t := range slices.Sorted(maps.Keys(l.Timeouts)) {
		parts = append(parts, t+"="+l.Timeouts[t])
	}
	return strings.Join(parts, ",")
}
