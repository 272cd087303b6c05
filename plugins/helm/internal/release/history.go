package release

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// secrets is where every API server has Secrets.
var secrets = target.Mapping{
	Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Namespaced: true,
}

// Status is what a revision says of itself.
type Status string

// The statuses that Helm gives to revisions. There may be others.
const (
	StatusUnknown         Status = "unknown"
	StatusDeployed        Status = "deployed"
	StatusUninstalled     Status = "uninstalled"
	StatusSuperseded      Status = "superseded"
	StatusFailed          Status = "failed"
	StatusUninstalling    Status = "uninstalling"
	StatusPendingInstall  Status = "pending-install"
	StatusPendingUpgrade  Status = "pending-upgrade"
	StatusPendingRollback Status = "pending-rollback"
)

// settled tells whether nobody can be working on a revision with this status. One that nobody knows is not.
func (s Status) settled() bool {
	return s == StatusDeployed || s == StatusSuperseded || s == StatusFailed || s == StatusUninstalled
}

// Revision is one revision of a release, as the labels of its Secret tell it.
type Revision struct {
	// Version is the number of the revision; the first one has 1.
	Version int
	Status  Status
	// ModifiedAt is when Helm has written the revision last, by the clock of the API server; zero if nobody knows.
	ModifiedAt time.Time
	// Item is the deploy item that the release belongs to, see Labels; empty for none.
	Item string
	// Input is the digest of what Pergola has made the revision from; empty for a revision that somebody else has
	// made.
	Input string
	// Children is the digest of the objects that have taken the place of those that the chart was rendered to; empty
	// for none.
	Children string
}

// History returns the revisions of a release, in ascending order, with one request; none if the release or its
// namespace does not exist. What cannot be a revision is passed over. Errors are explained ones, see target.
func History(ctx context.Context, client *target.Client, name helm.Release) ([]Revision, error) {
	selector := labels.Set{"owner": "helm", "name": name.Name}.String()
	all, err := client.Metadata(secrets, name.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		err = fmt.Errorf("list the revisions of %s: %w", describe(name), err)
		return nil, target.Explain(client.Host, notPermitted(name, err))
	}
	var history []Revision
	for i := range all.Items {
		if r, ok := revisionOf(&all.Items[i], name.Name); ok {
			history = append(history, r)
		}
	}
	slices.SortFunc(history, func(a, b Revision) int { return cmp.Compare(a.Version, b.Version) })
	return history, nil
}

// notPermitted adds to an error about a missing permission what it is needed for.
func notPermitted(name helm.Release, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w; Helm keeps releases in Secrets: let the credentials of the Target "+
		"get, list, create, update and delete Secrets in namespace %s", err, name.Namespace)
}

func describe(name helm.Release) string {
	return fmt.Sprintf("release %s/%s", name.Namespace, name.Name)
}

// secretName returns the name of the Secret of a revision.
func secretName(name string, revision int) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision)
}

// revisionOf reads the metadata of a Secret that has the labels of a release. Its name counts, since Helm finds a
// revision by it.
func revisionOf(secret *metav1.PartialObjectMetadata, name string) (Revision, bool) {
	_, number, _ := strings.Cut(secret.Name, "."+name+".v")
	version, err := strconv.Atoi(number)
	if err != nil || version <= 0 || secret.Name != secretName(name, version) {
		return Revision{}, false
	}
	return Revision{
		Version:    version,
		Status:     cmp.Or(Status(secret.Labels["status"]), StatusUnknown),
		ModifiedAt: modifiedAt(secret),
		Item:       secret.Labels[ItemLabel],
		Input:      digestOf(secret.Labels, InputLabel, version),
		Children:   digestOf(secret.Labels, ChildrenLabel, version),
	}, true
}

// modifiedAt returns when the content of a revision was written last. The label with this name is no help: it is by
// the clock of whoever has written it, and Helm writes the old one again in many cases.
func modifiedAt(secret *metav1.PartialObjectMetadata) time.Time {
	latest := secret.CreationTimestamp.Time
	for _, entry := range secret.ManagedFields {
		wroteContent := entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:data"`)
		if wroteContent && entry.Time != nil && entry.Time.After(latest) {
			latest = entry.Time.Time
		}
	}
	return latest
}
