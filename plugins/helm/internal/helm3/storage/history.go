// Package storage has the revisions of a release: Helm's driver of Secrets, the marking of interrupted revisions, and
// the outcome of an earlier attempt of the same job.
package storage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/render"
)

// History is Helm's storage of a release. It works a little longer than the context of the request: Helm records the
// failure after a cancellation, too.
type History struct {
	driver.Driver

	// Attempt is the outcome of the earlier attempt; nil for none.
	Attempt *Attempt
	// Failed is a revision with a final status, whatever Helm makes of it; zero for none.
	Failed int

	ctx      context.Context // that of the request
	req      *helm.Request
	journal  *journal.Journal
	renderer *render.Renderer
	secrets  *secrets
	core     corev1client.CoreV1Interface

	// running is the revision in the making or under removal, see Current; made has all revisions begun by this
	// operation.
	running *release.Release
	what    string
	made    []int
	// lost has the errors of unwritten revisions; Helm ignores most of them.
	lost map[int]error
}

// unfinished describes a revision left in progress: by a killed process, a stopped host, an aborted job or the end of
// its time.
const unfinished = "the operation has not come to its end"

// New returns the storage of the release of a request. core reaches the cluster longer than ctx.
func New(
	ctx context.Context, req *helm.Request, j *journal.Journal, r *render.Renderer, core corev1client.CoreV1Interface,
) *History {
	s := newSecrets(core.Secrets(req.Release.Namespace), req.Release.Name)
	d := driver.NewSecrets(s)
	d.Log = j.LogSteps
	return &History{Driver: d, ctx: ctx, req: req, journal: j, renderer: r, secrets: s, core: core, lost: map[int]error{}}
}

// Query returns revisions. A revision under removal is the same object each time: the state of hooks is known by their
// pointers.
func (h *History) Query(labels map[string]string) ([]*release.Release, error) {
	all, err := h.Driver.Query(labels)
	for i, rel := range all {
		if running, what := h.Current(); what == "delete" && rel.Version == running.Version {
			all[i] = running
		}
	}
	return all, err
}

// Create stores a new revision. It is Helm's first change, apart from definitions of kinds and surplus revisions.
func (h *History) Create(key string, rel *release.Release) error {
	if err := h.ctx.Err(); err != nil {
		return err
	}
	rollsBack := rel.Info.Status == release.StatusPendingRollback
	if h.Attempt != nil && !rollsBack {
		rel.Hooks = h.Attempt.hooks // Helm runs the stored ones
	}
	if err := h.renderer.CheckRelease(rel); err != nil {
		return err
	}
	h.journal.Enter(journal.Changing)
	if rel.Info.Status == release.StatusPendingInstall && h.req.CreateNamespace {
		if err := h.createNamespace(); err != nil {
			return err
		}
	}
	if rollsBack {
		h.journal.Progress("Rollback", "Rolling back after a failure: %s", rel.Info.Description)
		labels := map[string]string{} // a copy: the map is the other revision's
		maps.Copy(labels, rel.Labels)
		maps.Copy(labels, h.req.RollbackLabels)
		rel.Labels = labels
	}
	h.begin(rel)
	err := h.Driver.Create(key, rel)
	switch {
	case errors.Is(err, driver.ErrReleaseExists):
		return Pending(rel.Version)
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		// Nothing else about Helm's Secret is up to the user.
		return journal.Failure(helm.Rejected, "the chart and its values exceed the size of a release, a Secret of 1 MiB; "+
			"make them smaller, or deploy the chart without a release")
	case err != nil:
		return err
	}
	if h.Attempt != nil && !rollsBack {
		if _, err := h.Driver.Delete(h.Attempt.key); err != nil {
			h.journal.Log("delete revision %d, whose place revision %d takes: %v", h.req.Retry, rel.Version, err)
		}
	}
	h.made = append(h.made, rel.Version)
	return nil
}

// Pending is the error about a revision of another operation in progress.
func Pending(revision int) error {
	return journal.Failure(helm.Pending, "another operation on the release is in progress: revision %d is pending",
		revision)
}

// Update stores a revision as it is now. Helm ignores most of the errors; End does not.
func (h *History) Update(key string, rel *release.Release) error {
	replaced := h.Attempt != nil && rel.Version == h.req.Retry // its successor is stored in its place
	if rel.Info.Status == release.StatusSuperseded && (replaced || rel.Version == h.Failed) {
		return nil
	}
	if h.Attempt != nil {
		h.Attempt.keepRuns()
	}
	h.begin(rel)
	h.lost[rel.Version] = retried(func() error { return h.Driver.Update(key, rel) })
	return h.lost[rel.Version]
}

// Retry has the operation repeat the failed attempt of its request, if there is one among the revisions, and reports
// whether it does.
func (h *History) Retry(revisions []*release.Release) bool {
	i := slices.IndexFunc(revisions, func(r *release.Release) bool { return r.Version == h.req.Retry })
	if i < 0 || i < len(revisions)-2 || revisions[i].Info.Status != release.StatusFailed {
		return false
	}
	h.Attempt = newAttempt(revisions[i], revisions[i+1:])
	return true
}

// Remove has the operation remove a release with this last revision: Helm notes it after the first hooks.
func (h *History) Remove(last *release.Release) {
	h.running, h.what = last, "delete"
	if !h.req.Since.IsZero() {
		h.Attempt = attemptSince(last, h.req.Since)
	}
}

// DeleteUnreadable deletes the Secret of an unreadable revision.
func (h *History) DeleteUnreadable(name string) error {
	if err := h.secrets.Delete(h.ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete Secret %s: %w", name, err)
	}
	h.journal.Warn(helm.ReasonUnreadable, "Secret %s is deleted: it is an unreadable revision of the release", name)
	return nil
}

// operations maps the status of a revision in progress to Helm's name of the operation.
var operations = map[release.Status]string{
	release.StatusPendingInstall:  "install",
	release.StatusPendingUpgrade:  "upgrade",
	release.StatusPendingRollback: "rollback",
	release.StatusUninstalling:    "delete",
}

func (h *History) begin(rel *release.Release) {
	if what, ok := operations[rel.Info.Status]; ok {
		h.running, h.what = rel, what
	}
}

// retried tries a write several times. A conflict ends it: it is another client's write of the revision.
func retried(write func() error) error {
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 4}
	return retry.OnError(backoff, func(err error) bool { return !apierrors.IsConflict(err) }, write)
}

// Delete removes a revision. A cancelled uninstall must not: after a failure it goes on with the older ones.
func (h *History) Delete(key string) (*release.Release, error) {
	if err := h.ctx.Err(); err != nil {
		return nil, err
	}
	rel, err := h.Driver.Delete(key)
	if err == nil {
		delete(h.lost, rel.Version)
	}
	return rel, err
}

// Current returns the revision in the making or under removal, and the operation as in Helm's names of hooks.
func (h *History) Current() (running *release.Release, what string) {
	return h.running, h.what
}

// Revisions returns all readable revisions, oldest first, and the names of the release's unreadable Secrets. First it
// marks interrupted revisions as failed; the error is helm.Pending if another client has written one meanwhile.
func (h *History) Revisions(interrupted []int) (all []*release.Release, unreadable []string, err error) {
	for _, revision := range interrupted {
		err := h.mark(revision)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil, nil, Pending(revision)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if all, err = h.read(); err != nil {
		return nil, nil, fmt.Errorf("read the release: %w", err)
	}
	stored, err := h.secrets.List(h.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("read the release: %w", err)
	}
	for i := range stored.Items {
		if !slices.ContainsFunc(all, func(r *release.Release) bool { return KeyOf(r) == stored.Items[i].Name }) {
			unreadable = append(unreadable, stored.Items[i].Name)
		}
	}
	return all, unreadable, nil
}

func (h *History) read() ([]*release.Release, error) {
	all, err := h.Query(map[string]string{"name": h.req.Release.Name, "owner": "helm"})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	releaseutil.SortByRevision(all)
	return all, err
}

// mark marks a revision as failed unless its operation has come to an end.
func (h *History) mark(revision int) error {
	all, err := h.read()
	for _, rel := range all {
		if _, busy := operations[rel.Info.Status]; busy && rel.Version == revision {
			rel.SetStatus(release.StatusFailed, unfinished)
			delete(rel.Labels, "modifiedAt") // the driver sets it, but does not overwrite a value read before
			err = h.Driver.Update(KeyOf(rel), rel)
		}
	}
	if err != nil {
		return fmt.Errorf("mark revision %d as failed: %w", revision, err)
	}
	return nil // or removed, or unreadable
}

// End ends an operation with its error. After a success the error is that of unwritten revisions. After a failure it
// marks the operation's own revisions as failed, as the next attempt would: Helm leaves them pending when a rollback
// fails in a hook, or at a kind no longer served, and when its write is lost. A job that was aborted, or has failed for
// good, has no next attempt, and a pending revision blocks the Helm CLI.
func (h *History) End(err error) error {
	if err == nil {
		if lost := errors.Join(slices.Collect(maps.Values(h.lost))...); lost != nil {
			return fmt.Errorf("record the release as deployed: %w", lost)
		}
		return nil
	}
	for _, revision := range h.made {
		if lost := retried(func() error { return h.mark(revision) }); lost != nil {
			h.journal.Log("%v", lost)
		}
	}
	return err
}
