package releasejob

import (
	"context"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/release"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
)

// state is how a call finds the release.
type state string

const (
	// made: an earlier call of the job has made the revision, or has found it current.
	made state = "made"
	// current: the deployed revision is the wanted one, and its objects are unchanged, or the target refuses a repair.
	current state = "current"
	// drifted: the deployed revision is the wanted one, but its objects are not.
	drifted state = "drifted"
	// outdated: another revision is due.
	outdated state = "outdated"
)

// finding is a release as found by a call.
type finding struct {
	state state
	// want and decision are those about the next revision. Not for made.
	want     release.Want
	decision release.Decision
	// objects are those of the current or drifted revision.
	objects *observed
}

// find compares the release with the wanted one.
func (d *Deployment) find(ctx context.Context, history []release.Revision, force bool) (*finding, error) {
	if d.Record.Release != nil && d.Record.Release.JobID == d.Request.JobID {
		return &finding{state: made}, nil
	}
	want := d.want()
	want.Force = force || d.announced(history)
	if err := d.learnCharts(ctx, history, &want); err != nil {
		return nil, err
	}
	decision := release.Decide(history, want)
	if decision.Action != release.Nothing {
		return &finding{state: outdated, want: want, decision: decision}, nil
	}
	objects, err := d.look(ctx, decision.Revision)
	if err != nil {
		return nil, job.During(stepRelease, err)
	}
	d.disownSkipped(objects.foreign)
	if len(objects.missing) == 0 && (len(objects.drift) == 0 || refuses(objects.drift)) {
		return &finding{state: current, want: want, decision: decision, objects: objects}, nil
	}
	want.Drifted = true
	return &finding{state: drifted, want: want, decision: release.Decide(history, want), objects: objects}, nil
}
