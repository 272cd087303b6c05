package contract_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Rule (deploy-items.md#health): Lost health of deployed objects is in Ready, until it returns or a job begins.
func TestHealth(t *testing.T) {
	lacks := func(text string) modifier {
		return func(i *v1alpha1.DeployItem) { contract.ShowHealth(i, text, noon) }
	}
	succeeds := func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon) }
	reported := func(i *v1alpha1.DeployItem) {
		contract.Report(i, []v1alpha1.ConditionType{"Tested"}, nil, noon)
		contract.SucceedWith(i, []v1alpha1.ConditionType{"Tested"}, noon)
	}
	const good, bad, healthy = "the job succeeded", "Deployment a/b: Available: 0/1", ""
	for name, tc := range map[string]struct {
		life []modifier
		want v1alpha1.Condition
		is   status.Status
	}{
		"healthy": {[]modifier{succeeds, lacks(healthy)},
			newCondition(ready, isTrue, "Succeeded", good, 0), status.CurrentStatus},
		"unhealthy": {[]modifier{succeeds, lacks(bad)},
			newCondition(ready, isFalse, "Unhealthy", bad, 0), status.InProgressStatus},
		"another lack": {[]modifier{succeeds, lacks("more"), lacks(bad)},
			newCondition(ready, isFalse, "Unhealthy", bad, 0), status.InProgressStatus},
		"healthy again": {[]modifier{succeeds, lacks(bad), lacks(healthy)},
			newCondition(ready, isTrue, "Succeeded", good, 0), status.CurrentStatus},
		"not ready by its hook": {[]modifier{reported, lacks(bad), lacks(healthy)},
			newCondition(ready, isUnknown, "HookReported", "Tested: the hook has not reported it yet", 0),
			status.InProgressStatus},
		"another job": {[]modifier{succeeds, lacks(bad), withJob("next"), begun},
			newCondition(ready, isUnknown, "Progressing", "the job is under way", 0), status.InProgressStatus},
		"a job that calls no deployer": {[]modifier{succeeds, lacks(bad), withJob("next"), skipped},
			newCondition(ready, isFalse, "Unhealthy", bad, 0), status.InProgressStatus},
	} {
		t.Run(name, func(t *testing.T) {
			item := newItem(append([]modifier{begun}, tc.life...)...)
			ignoreTimes := cmp.FilterPath(func(p cmp.Path) bool {
				last := p.Last().String()
				return last == ".LastTransitionTime" || last == ".LastUpdateTime"
			}, cmp.Ignore())
			failWith(t, name, cmp.Diff(tc.want, *conditionOf(item, ready), ignoreTimes))
			if got := kstatusOf(t, item); got != tc.is {
				t.Errorf("kstatus says %s instead of %s", got, tc.is)
			}
			if d := contract.Decide(item, noon.Add(time.Second)); contract.IsDeployed(item) && d.Action != contract.Nothing {
				t.Errorf("expected nothing to do, but found %+v", d)
			}
			if contract.IsUnhealthy(item) != (conditionOf(item, ready).Reason == contract.ReasonUnhealthy) {
				t.Error("IsUnhealthy contradicts the condition")
			}
		})
	}
}
