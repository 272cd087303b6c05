package helm3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// history is the storage of a release, as Helm's driver. It sees to it that an operation leaves the release in order, however it ends.
type history struct {
	driver.Driver

	o       *operation
	secrets *secrets
	core    corev1client.CoreV1Interface

	mu     sync.Mutex
	sealed bool
	// made are the revisions that this operation has begun, and unsaved those that could not be written as they are now.
	made    []int
	unsaved map[int]*release.Release
	// running is the revision that the operation is about.
	running *release.Release
	// failed is a revision that stays so, whatever Helm makes of it; zero for none.
	failed int
}

func newHistory(o *operation, core corev1client.CoreV1Interface) *history {
	s := newSecrets(core.Secrets(o.req.Release.Namespace), o.req.Release.Name)
	d := driver.NewSecrets(s)
	d.Log = o.journal.printf
	return &history{Driver: d, o: o, secrets: s, core: core, unsaved: map[int]*release.Release{}}
}

func keyOf(name string, revision int) string {
	return fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, name, revision)
}

// Create stores a new revision. It is the first thing that Helm changes, apart from definitions of kinds and revisions that are too many.
func (h *history) Create(key string, rel *release.Release) error {
	if err := h.o.ctx.Err(); err != nil {
		return err
	}
	if err := h.o.checkRelease(rel); err != nil {
		return err
	}
	if rel.Info.Status == release.StatusPendingInstall && h.o.req.CreateNamespace {
		if err := h.createNamespace(); err != nil {
			return err
		}
	}
	if err := h.o.objects.deleteStale(rel.Manifest); err != nil {
		return err
	}
	if rel.Info.Status == release.StatusPendingRollback && len(h.o.req.RollbackLabels) > 0 {
		labels := map[string]string{} // those that it has are the other revision's
		maps.Copy(labels, rel.Labels)
		maps.Copy(labels, h.o.req.RollbackLabels)
		rel.Labels = labels
	}
	err := h.write(rel, func() error { return h.Driver.Create(key, rel) })
	switch {
	case errors.Is(err, driver.ErrReleaseExists):
		return h.o.pending(rel.Version)
	case tooLong(err):
		return &helm.Error{Kind: helm.Rejected, Message: "the chart and its values do not fit into the Secret of 1 MiB in which Helm keeps a release; " +
			"make them smaller, or deploy the chart without a release"}
	case err != nil:
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made = append(h.made, rel.Version)
	return nil
}

// tooLong goes by what is wrong with a Secret that Helm makes: nothing but its size is up to the user.
func tooLong(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return apierrors.IsRequestEntityTooLargeError(err)
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeTooLong || c.Type == "FieldValueTooLong" || strings.HasPrefix(c.Message, "Too long")
	}) || apierrors.IsRequestEntityTooLargeError(err)
}

// pending is the error about a revision that somebody else is working on.
func (o *operation) pending(revision int) error {
	return &helm.Error{Kind: helm.Pending, Message: fmt.Sprintf(
		"another operation on the release is in progress: somebody is making revision %d", revision)}
}

// createNamespace does what Helm's option does, with the same label. A namespace that exists need not be creatable.
func (h *history) createNamespace() error {
	name := h.o.req.Release.Namespace
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
	ctx := h.o.ctx
	_, err := h.core.Namespaces().Create(ctx, ns, metav1.CreateOptions{FieldManager: "helm"})
	if apierrors.IsForbidden(err) {
		if _, looked := h.core.Namespaces().Get(ctx, name, metav1.GetOptions{}); looked == nil {
			return nil
		}
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// Update stores a revision as it is now. Helm ignores most of the errors; settle does not.
func (h *history) Update(key string, rel *release.Release) error {
	if rel.Info.Status == release.StatusSuperseded && h.staysFailed(rel.Version) {
		return nil
	}
	err := h.write(rel, func() error { return h.Driver.Update(key, rel) })
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.unsaved[rel.Version] = rel
	} else {
		delete(h.unsaved, rel.Version)
	}
	return err
}

func (h *history) write(rel *release.Release, write func() error) error {
	h.mu.Lock()
	if h.sealed {
		h.mu.Unlock()
		return errOver
	}
	switch rel.Info.Status {
	case release.StatusPendingInstall, release.StatusPendingUpgrade, release.StatusPendingRollback, release.StatusUninstalling:
		if rel.Info.Status == release.StatusPendingRollback && (h.running == nil || h.running.Version != rel.Version) {
			defer h.o.progress("Rollback", "Rolling back after a failure: "+rel.Info.Description)
		}
		h.running = rel
	default:
	}
	h.mu.Unlock()
	return write()
}

// Delete removes a revision. An uninstall that was cancelled must not: it goes on with what comes before when it has failed.
func (h *history) Delete(key string) (*release.Release, error) {
	if err := h.o.ctx.Err(); err != nil {
		return nil, err
	}
	rel, err := h.Driver.Delete(key)
	if err == nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.unsaved, rel.Version)
	}
	return rel, err
}

// seal ends all writing but that of settle.
func (h *history) seal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sealed = true
}

// remove says that a revision is being removed, before Helm has written that.
func (h *history) remove(rel *release.Release) {
	h.mu.Lock()
	defer h.mu.Unlock()
	removed, info := *rel, *rel.Info
	info.Status = release.StatusUninstalling
	removed.Info = &info
	h.running = &removed
}

// current returns the revision that is being made or removed, and what happens to it.
func (h *history) current() (rel *release.Release, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		return nil, ""
	}
	switch h.running.Info.Status {
	case release.StatusPendingUpgrade:
		return h.running, "upgrade"
	case release.StatusPendingRollback:
		return h.running, "rollback"
	case release.StatusUninstalling:
		return h.running, "delete"
	default:
		return h.running, "install"
	}
}

// revisions returns all that can be read, oldest first.
func (h *history) revisions() ([]*release.Release, error) {
	all, err := h.Query(map[string]string{"name": h.o.req.Release.Name, "owner": "helm"})
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	releaseutil.SortByRevision(all)
	return all, nil
}

// unreadable returns the names of Secrets that are of the release but hold no revision.
func (h *history) unreadable(readable []*release.Release) []string {
	versions := map[string]struct{}{}
	for _, rel := range readable {
		versions[strconv.Itoa(rel.Version)] = struct{}{}
	}
	return h.secrets.without(versions)
}

// removeSecret deletes a Secret that holds no revision.
func (h *history) removeSecret(name string) error {
	return h.secrets.Delete(h.o.ctx, name, metav1.DeleteOptions{})
}

// recover marks revisions as failed whose operations have ended without noting it.
func (h *history) recover(interrupted []int) error {
	for _, revision := range interrupted {
		err := h.fail(revision, "interrupted: the process that worked on it has ended")
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return h.o.pending(revision)
		}
		if err != nil {
			return fmt.Errorf("mark revision %d as failed: %w", revision, err)
		}
	}
	return nil
}

// fail marks a revision as failed unless its operation has come to an end.
func (h *history) fail(revision int, why string) error {
	key := keyOf(h.o.req.Release.Name, revision)
	all, err := h.revisions()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(r *release.Release) bool { return r.Version == revision })
	if at < 0 {
		return nil // it was removed, or cannot be read
	}
	rel := all[at]
	if !rel.Info.Status.IsPending() && rel.Info.Status != release.StatusUninstalling {
		return nil
	}
	rel.SetStatus(release.StatusFailed, why)
	// The driver would overwrite what somebody else has written in the meantime.
	guarded := driver.NewSecrets(unchanged{h.secrets, h.secrets.version(key)})
	return guarded.Update(key, relabelled(rel))
}

// relabelled drops a label that the driver sets, but not over one that it has read.
func relabelled(rel *release.Release) *release.Release {
	delete(rel.Labels, "modifiedAt")
	return rel
}

// unchanged are secrets of which one is replaced only in a certain version.
type unchanged struct {
	*secrets

	resourceVersion string
}

func (u unchanged) Update(ctx context.Context, secret *corev1.Secret, opts metav1.UpdateOptions) (*corev1.Secret, error) {
	secret.ResourceVersion = u.resourceVersion
	return u.secrets.Update(ctx, secret, opts)
}

// settle brings the history in order at the end of an operation: after a failure no revision of it is pending, and after a success all that
// Helm could not write is written, and one revision is deployed only.
func (h *history) settle(succeeded bool) error {
	h.mu.Lock()
	made, unsaved := slices.Clone(h.made), h.unsaved
	h.unsaved = map[int]*release.Release{}
	h.mu.Unlock()
	if !succeeded {
		for _, revision := range made {
			err := h.insist(func() error { return h.fail(revision, "the operation has not come to its end") })
			if err != nil {
				h.o.journal.printf("mark revision %d as failed: %v", revision, err)
			}
		}
		return nil
	}
	for _, rel := range unsaved {
		if err := h.insist(func() error { return h.Driver.Update(keyOf(rel.Name, rel.Version), rel) }); err != nil {
			return err
		}
	}
	return h.supersede(made)
}

// insist tries several times to write. Before it tries again it reads what is there: a write may have happened although it failed.
func (h *history) insist(write func() error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(h.o.books, wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 4},
		func(context.Context) (bool, error) {
			if last = write(); last != nil {
				h.secrets.forget()
			}
			return last == nil, nil
		})
	if err != nil {
		return errors.Join(last, err)
	}
	return nil
}

// supersede marks revisions that are said to be deployed although another one is now. Helm knows of one only, but there may be more after
// several operations at once, or after a crash of somebody else's.
func (h *history) supersede(made []int) error {
	if len(made) == 0 {
		return nil
	}
	all, err := h.revisions()
	if err != nil {
		return err
	}
	newest := slices.Max(made)
	for _, rel := range all {
		if rel.Version >= newest || rel.Info.Status != release.StatusDeployed {
			continue
		}
		rel.Info.Status = release.StatusSuperseded
		if err := h.insist(func() error { return h.Driver.Update(keyOf(rel.Name, rel.Version), relabelled(rel)) }); err != nil {
			return err
		}
	}
	return nil
}
