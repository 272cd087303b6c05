package helm3

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// history is Helm's storage of a release. It works a little longer than the context of the request: Helm records the
// failure after a cancellation, too.
type history struct {
	driver.Driver

	o       *operation
	secrets *secrets
	core    corev1client.CoreV1Interface

	// running is the revision in the making or under removal, see current; made has all revisions begun by this
	// operation.
	running *release.Release
	what    string
	made    []int
	// lost has the errors of unwritten revisions; Helm ignores most of them.
	lost map[int]error
	// failed is a revision with a final status, whatever Helm makes of it; zero for none.
	failed int
}

// unfinished describes a revision left in progress: by a killed process, a stopped host, an aborted job or the end of
// its time.
const unfinished = "the operation has not come to its end"

func newHistory(o *operation, core corev1client.CoreV1Interface) *history {
	s := newSecrets(core.Secrets(o.req.Release.Namespace), o.req.Release.Name)
	d := driver.NewSecrets(s)
	d.Log = o.logSteps
	return &history{Driver: d, o: o, secrets: s, core: core, lost: map[int]error{}}
}

// Query returns revisions. A revision under removal is the same object each time: the state of hooks is known by their
// pointers.
func (h *history) Query(labels map[string]string) ([]*release.Release, error) {
	all, err := h.Driver.Query(labels)
	for i, rel := range all {
		if running, what := h.current(); what == "delete" && rel.Version == running.Version {
			all[i] = running
		}
	}
	return all, err
}

// Create stores a new revision. It is Helm's first change, apart from definitions of kinds and surplus revisions.
func (h *history) Create(key string, rel *release.Release) error {
	if err := h.o.ctx.Err(); err != nil {
		return err
	}
	rollsBack := rel.Info.Status == release.StatusPendingRollback
	if h.o.attempt != nil && !rollsBack {
		rel.Hooks = h.o.attempt.hooks // Helm runs the stored ones
	}
	if err := h.o.checkRelease(rel); err != nil {
		return err
	}
	h.o.enter(changing)
	if rel.Info.Status == release.StatusPendingInstall && h.o.req.CreateNamespace {
		if err := h.createNamespace(); err != nil {
			return err
		}
	}
	if rollsBack {
		h.o.progress("Rollback", "Rolling back after a failure: %s", rel.Info.Description)
		labels := map[string]string{} // a copy: the map is the other revision's
		maps.Copy(labels, rel.Labels)
		maps.Copy(labels, h.o.req.RollbackLabels)
		rel.Labels = labels
	}
	h.begin(rel)
	err := h.Driver.Create(key, rel)
	switch {
	case errors.Is(err, driver.ErrReleaseExists):
		return h.o.pending(rel.Version)
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		// Nothing else about Helm's Secret is up to the user.
		return failure(helm.Rejected, "the chart and its values do not fit into the Secret of 1 MiB in which Helm keeps a "+
			"release; make them smaller, or deploy the chart without a release")
	case err != nil:
		return err
	}
	if h.o.attempt != nil && !rollsBack {
		if _, err := h.Driver.Delete(h.o.attempt.key); err != nil {
			h.o.log("delete revision %d, whose place revision %d takes: %v", h.o.req.Retry, rel.Version, err)
		}
	}
	h.made = append(h.made, rel.Version)
	return nil
}

// pending is the error about a revision of another operation in progress.
func (o *operation) pending(revision int) error {
	return failure(helm.Pending, "another operation on the release is in progress: somebody is making revision %d", revision)
}

// createNamespace is Helm's option of that name, with the same label. An existing namespace need not be creatable.
func (h *history) createNamespace() error {
	name := h.o.req.Release.Namespace
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	_, err := h.core.Namespaces().Create(h.o.ctx, ns, metav1.CreateOptions{FieldManager: "helm"})
	if apierrors.IsForbidden(err) {
		if _, missing := h.core.Namespaces().Get(h.o.ctx, name, metav1.GetOptions{}); missing == nil {
			return nil
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// Update stores a revision as it is now. Helm ignores most of the errors; end does not.
func (h *history) Update(key string, rel *release.Release) error {
	replaced := h.o.attempt != nil && rel.Version == h.o.req.Retry // its successor is stored in its place
	if rel.Info.Status == release.StatusSuperseded && (replaced || rel.Version == h.failed) {
		return nil
	}
	if h.o.attempt != nil {
		h.o.attempt.keepRuns()
	}
	h.begin(rel)
	h.lost[rel.Version] = retried(func() error { return h.Driver.Update(key, rel) })
	return h.lost[rel.Version]
}

// operations has Helm's names for the operations on revisions, by status.
var operations = map[release.Status]string{
	release.StatusPendingInstall:  "install",
	release.StatusPendingUpgrade:  "upgrade",
	release.StatusPendingRollback: "rollback",
	release.StatusUninstalling:    "delete",
}

func (h *history) begin(rel *release.Release) {
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
func (h *history) Delete(key string) (*release.Release, error) {
	if err := h.o.ctx.Err(); err != nil {
		return nil, err
	}
	rel, err := h.Driver.Delete(key)
	if err == nil {
		delete(h.lost, rel.Version)
	}
	return rel, err
}

// current returns the revision in the making or under removal, and the operation as in Helm's names of hooks.
func (h *history) current() (running *release.Release, what string) {
	return h.running, h.what
}

// revisions returns all readable revisions, oldest first, and the names of the release's unreadable Secrets. First it
// marks interrupted revisions as failed; the error is helm.Pending if another client has written one meanwhile.
func (h *history) revisions(interrupted []int) (all []*release.Release, unreadable []string, err error) {
	for _, revision := range interrupted {
		err := h.mark(revision)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil, nil, h.o.pending(revision)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if all, err = h.read(); err != nil {
		return nil, nil, fmt.Errorf("read the release: %w", err)
	}
	stored, err := h.secrets.List(h.o.ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("read the release: %w", err)
	}
	for i := range stored.Items {
		if !slices.ContainsFunc(all, func(r *release.Release) bool { return keyOf(r) == stored.Items[i].Name }) {
			unreadable = append(unreadable, stored.Items[i].Name)
		}
	}
	return all, unreadable, nil
}

func (h *history) read() ([]*release.Release, error) {
	all, err := h.Query(map[string]string{"name": h.o.req.Release.Name, "owner": "helm"})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	releaseutil.SortByRevision(all)
	return all, err
}

// mark marks a revision as failed unless its operation has come to an end.
func (h *history) mark(revision int) error {
	all, err := h.read()
	for _, rel := range all {
		if _, busy := operations[rel.Info.Status]; busy && rel.Version == revision {
			rel.SetStatus(release.StatusFailed, unfinished)
			delete(rel.Labels, "modifiedAt") // the driver sets it, but does not overwrite a value read before
			err = h.Driver.Update(keyOf(rel), rel)
		}
	}
	if err != nil {
		return fmt.Errorf("mark revision %d as failed: %w", revision, err)
	}
	return nil // or removed, or unreadable
}

// end ends an operation with its error. After a success the error is that of unwritten revisions. After a failure it
// marks the operation's own revisions as failed, as the next attempt would: Helm leaves them pending when a rollback
// fails in a hook, or at a kind no longer served, and when its write is lost. A job that was aborted, or has failed for
// good, has no next attempt, and a pending revision blocks the Helm CLI.
func (h *history) end(err error) error {
	if err == nil {
		if lost := errors.Join(slices.Collect(maps.Values(h.lost))...); lost != nil {
			return fmt.Errorf("note that the release is deployed: %w", lost)
		}
		return nil
	}
	for _, revision := range h.made {
		if lost := retried(func() error { return h.mark(revision) }); lost != nil {
			h.o.log("%v", lost)
		}
	}
	return err
}
