package controller

import (
	"time"

	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// step is something that happens to a replica or to the item.
func (c *crew) step() {
	pod := rapid.SampledFrom(pods).Draw(c.t, "replica")
	r := c.replicas[pod]
	what := rapid.SampledFrom([]string{
		"work", "work", "work", "hear", "hear", "hear of the item", "hear of the item", "hear of the others",
		"thinks the other dead", "thinks the other alive", "lapses", "is renewed", "is restarted",
		"refused", "unanswered", "no trouble", "slot taken", "slot taken", "slot free", "slot free",
		"does not serve", "serves", "does not run", "runs",
		"job", "label", "operation", "time", "preference", "lock deleted",
	}).Draw(c.t, "step")
	c.note("%s: %s", pod, what)
	switch what {
	case "work":
		c.work(r)
	case "hear":
		r.hear()
	case "hear of the item":
		r.hearItem()
	case "hear of the others":
		c.hearOfOthers(pod)
	case "refused", "unanswered":
		r.trouble = trouble(what)
	case "no trouble":
		r.trouble = noTrouble
	case "slot taken":
		c.fillSlot(r)
	case "slot free":
		c.freeSlot(r)
	case "does not serve", "serves", "does not run", "runs":
		c.setPlugin(r, what)
	case "thinks the other dead", "thinks the other alive", "lapses", "is renewed", "is restarted":
		c.stepOfLife(pod, r, what)
	default:
		c.stepOfItem(what)
	}
}

// stepOfLife is something that has to do with who is alive.
func (c *crew) stepOfLife(pod string, r *told, what string) {
	other := otherPod(pod)
	switch what {
	case "thinks the other dead":
		r.others.change(func(o *fakeReplicas) { o.dead[other] = true })
		r.locker.ReplicasChanged()
	case "thinks the other alive":
		r.others.change(func(o *fakeReplicas) { delete(o.dead, other) })
	case "lapses":
		r.others.change(func(o *fakeReplicas) { o.invalid = true })
		r.locker.ReplicasChanged()
	case "is renewed":
		c.renew(r)
	case "is restarted":
		if !c.isInCall(r) { // its call ends with it, and the bench has no way to end that
			c.begin(pod)
			c.replicas[other].locker.ReplicasChanged()
		}
	}
}

// stepOfItem is something that others do.
func (c *crew) stepOfItem(what string) {
	switch what {
	case "job":
		if item := c.read(); item.Status.JobID == item.Status.JobIDFinished {
			c.setJob()
		}
	case "label":
		c.touch(c.item)
	case "operation":
		c.annotate(c.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	case "time":
		c.clock.Step(time.Duration(rapid.IntRange(1, 9000).Draw(c.t, "ms")) * time.Millisecond)
	case "preference":
		c.first = otherPod(c.first)
	case "lock deleted":
		c.sweep()
	}
}

// setPlugin has the plugin of a replica serve its type or not, and run or not.
func (c *crew) setPlugin(r *told, what string) {
	switch what {
	case "does not serve":
		r.plugin(func(p *fakePlugins) { p.serving = nil })
	case "serves":
		r.plugin(func(p *fakePlugins) { p.serving = []*fakeDeployer{r.deployer} })
	case "does not run":
		c.down = true
		r.plugin(func(p *fakePlugins) { p.down = map[string]bool{r.name: true} })
	case "runs":
		r.plugin(func(p *fakePlugins) { p.down = nil })
	}
}
