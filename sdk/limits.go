package sdk

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/internal/bounds"
)

// limits are the defaults of a plugin for its calls. Operators can lower them.
type limits struct {
	timeouts          map[v1alpha1.DeployItemType]time.Duration
	calls, callsOfOne *int
}

// Timeout sets how long a job of a deploy item of this type may take without spec.timeout, from 1s to 168h. By default,
// it may take ten minutes.
func Timeout(itemType v1alpha1.DeployItemType, timeout time.Duration) Option {
	return func(p *plugin) { p.limits.timeouts[itemType] = timeout }
}

// MaxCalls bounds the concurrent calls of one process for deploy items; hooks and CheckHealth do not count. With 1 no
// call runs beside another. The host queues the others, and their time does not run meanwhile. By default, there are as
// many as the operator allows.
func MaxCalls(n int) Option {
	return func(p *plugin) { p.limits.calls = &n }
}

// MaxCallsPerTarget is MaxCalls for the deploy items of one Target, such as an API with few concurrent requests.
func MaxCallsPerTarget(n int) Option {
	return func(p *plugin) { p.limits.callsOfOne = &n }
}

// isSet reports whether there is a limit.
func (l limits) isSet() bool { return len(l.timeouts) > 0 || l.calls != nil || l.callsOfOne != nil }

// check returns the problems of the limits of a plugin that serves these types.
func (l limits) check(served []v1alpha1.DeployItemType) []error {
	var errs []error
	if err := bounds.CheckTimeouts(l.timeouts, served); err != nil {
		errs = append(errs, fmt.Errorf("sdk.Timeout: %w", err))
	}
	return append(errs, checkCalls("sdk.MaxCalls", l.calls), checkCalls("sdk.MaxCallsPerTarget", l.callsOfOne))
}

func checkCalls(option string, n *int) error {
	if n != nil && (*n < 1 || *n > math.MaxInt32) {
		return fmt.Errorf("%s: expected a number from 1 on, but found %d", option, *n)
	}
	return nil
}

// errLimitsOfHooks is the problem of a plugin with limits and nothing but hooks.
var errLimitsOfHooks = errors.New(
	"sdk.Timeout, sdk.MaxCalls, sdk.MaxCallsPerTarget: they do not bound hooks; leave them out")

// describe adds the limits to the description of the plugin.
func (l limits) describe(out *deployerv1.GetInfoResponse) {
	out.Timeouts = map[string]*durationpb.Duration{}
	for t, timeout := range l.timeouts {
		out.Timeouts[string(t)] = durationpb.New(timeout)
	}
	out.MaxCalls, out.MaxCallsPerTarget = countToWire(l.calls), countToWire(l.callsOfOne)
}

func countToWire(n *int) uint32 {
	if n == nil {
		return 0
	}
	return uint32(min(max(*n, 0), math.MaxInt32))
}
