package helm3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// history is Helm's storage of a release. It leaves the release in order, however an operation ends.
type history struct {
	driver.Driver

	o       *operation
	secrets *secrets
	core    corev1client.CoreV1Interface

	mu     sync.Mutex
	sealed bool
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

var errSealed = errors.New("the request is over")

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
	err := h.write(rel, func() error { return h.Driver.Create(key, rel) })
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
	h.mu.Lock()
	defer h.mu.Unlock()
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

// Update stores a revision as it is now. Helm ignores most of the errors; finish does not.
func (h *history) Update(key string, rel *release.Release) error {
	replaced := h.o.attempt != nil && rel.Version == h.o.req.Retry // its successor is stored in its place
	if rel.Info.Status == release.StatusSuperseded && (replaced || rel.Version == h.failed) {
		return nil
	}
	if h.o.attempt != nil {
		h.o.attempt.keepRuns()
	}
	err := h.write(rel, func() error { return h.retry(func() error { return h.Driver.Update(key, rel) }) })
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lost[rel.Version] = err
	return err
}

// operations has Helm's names for the operations on revisions, by status.
var operations = map[release.Status]string{
	release.StatusPendingInstall:  "install",
	release.StatusPendingUpgrade:  "upgrade",
	release.StatusPendingRollback: "rollback",
	release.StatusUninstalling:    "delete",
}

func (h *history) write(rel *release.Release, write func() error) error {
	h.mu.Lock()
	if h.sealed {
		h.mu.Unlock()
		return errSealed
	}
	if what, ok := operations[rel.Info.Status]; ok {
		h.running, h.what = rel, what
	}
	h.mu.Unlock()
	return write()
}

// retry tries a write several times. A failed write may have been done: the Secrets are listed again. A conflict ends
// it: it is another client's write of the revision.
func (h *history) retry(write func() error) error {
	var last error
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 4}
	err := wait.ExponentialBackoffWithContext(h.o.cleanup, backoff, func(ctx context.Context) (bool, error) {
		if _, last = h.secrets.List(ctx, metav1.ListOptions{}); last == nil {
			last = write()
		}
		if apierrors.IsConflict(last) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil && !errors.Is(err, last) {
		return errors.Join(last, err)
	}
	return err
}

// Delete removes a revision. A cancelled uninstall must not: after a failure it goes on with the older ones.
func (h *history) Delete(key string) (*release.Release, error) {
	if err := h.o.ctx.Err(); err != nil {
		return nil, err
	}
	rel, err := h.Driver.Delete(key)
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.lost, rel.Version)
	}
	return rel, err
}

// current returns the revision in the making or under removal, and the operation as in Helm's names of hooks.
func (h *history) current() (running *release.Release, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running, h.what
}

// revisions returns all readable revisions, oldest first, and the names of the release's unreadable Secrets. First it
// marks interrupted revisions as failed; the error is helm.Pending if another client has written one meanwhile.
func (h *history) revisions(interrupted []int) (all []*release.Release, unreadable []string, err error) {
	for _, revision := range interrupted {
		err := h.fail(revision, unfinished)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return nil, nil, h.o.pending(revision)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("mark revision %d as failed: %w", revision, err)
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

// fail marks a revision as failed unless its operation has come to an end.
func (h *history) fail(revision int, why string) error {
	all, err := h.read()
	if err != nil {
		return err
	}
	for _, rel := range all {
		if _, busy := operations[rel.Info.Status]; busy && rel.Version == revision {
			rel.SetStatus(release.StatusFailed, why)
			delete(rel.Labels, "modifiedAt") // the driver sets it, but does not overwrite a value read before
			return h.Driver.Update(keyOf(rel), rel)
		}
	}
	return nil // removed, or unreadable
}

// finish ends all other writes. After a failure no revision of the operation is pending; after a success the error is
// that of unwritten ones.
func (h *history) finish(succeeded bool) error {
	h.mu.Lock()
	h.sealed = true
	made, lost := h.made, errors.Join(slices.Collect(maps.Values(h.lost))...)
	h.mu.Unlock()
	if succeeded {
		return lost
	}
	for _, revision := range made {
		err := h.retry(func() error { return h.fail(revision, unfinished) })
		if err != nil {
			h.o.log("mark revision %d as failed: %v", revision, err)
		}
	}
	return nil
}
