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
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
)

// maxListed bounds the Secrets named in a message.
const maxListed = 5

// secrets is the resource of Secrets, the same on every API server.
var secrets = target.Mapping{
	Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, Namespaced: true,
}

// Status is the status of a revision, by its label.
type Status string

// The statuses of revisions in Helm. There may be others.
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

// settled reports whether the status excludes an operation in progress. An unknown status does not.
func (s Status) settled() bool {
	return s == StatusDeployed || s == StatusSuperseded || s == StatusFailed || s == StatusUninstalled
}

// Revision is one revision of a release, by the labels of its Secret.
type Revision struct {
	// Version is the number of the revision; the first one has 1.
	Version int
	Status  Status
	// ModifiedAt is the time of Helm's last write, by the clock of the API server; zero if unknown.
	ModifiedAt time.Time
	// Item is the deploy item of the release, see Labels; empty for none.
	Item string
	// Installation is the installation of the deploy item; empty without the label.
	Installation string
	// Input is the digest of Pergola's input for the revision; empty for a revision of another client.
	Input string
	// Chart is the name of the chart; empty until read with ChartOf.
	Chart string
	// Job is the digest of the job for the revision; empty if unknown.
	Job string
	// Children is the digest of the objects in place of the rendered ones; empty for none.
	Children string
	// Bequeather is the former deploy item, see HandOver; empty for none.
	Bequeather string
}

// History returns the revisions of a release, in ascending order, with one request; none if the release or its
// namespace does not exist. A Secret with the labels of a revision, but not with its name, is an error: Helm may or
// may not take it for a revision. Errors are explained ones, see target.
func History(ctx context.Context, client *target.Client, name helm.Release) ([]Revision, error) {
	history, strange, err := Revisions(ctx, client, name)
	if err == nil && len(strange) > 0 {
		err = &sdk.Error{Reason: ReasonUnreadable, Err: fmt.Errorf(
			"list the revisions of %s: %w: these Secrets in namespace %s have the labels of its revisions, but not their names "+
				"(%s): %s; delete them, or remove their label %q", describe(name), ErrUnreadable, name.Namespace,
			secretName(name.Name, 1), object.Enumerate(strange, ", ", maxListed), "owner")}
	}
	return history, err
}

// Revisions is History without that error. strange are the names of such Secrets.
func Revisions(
	ctx context.Context, client *target.Client, name helm.Release,
) (history []Revision, strange []string, err error) {
	selector := labels.Set{"owner": "helm", "name": name.Name}.String()
	all, err := client.Metadata(secrets, name.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		err = fmt.Errorf("list the revisions of %s: %w", describe(name), err)
		return nil, nil, target.Explain(client.Host, notPermitted(name, err))
	}
	for i := range all.Items {
		if version := VersionOf(all.Items[i].Name, name.Name); version > 0 {
			history = append(history, revisionOf(&all.Items[i], version))
		} else {
			strange = append(strange, all.Items[i].Name)
		}
	}
	slices.SortFunc(history, func(a, b Revision) int { return cmp.Compare(a.Version, b.Version) })
	return history, strange, nil
}

// notPermitted adds the needed permissions to an error about a missing one.
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
func secretName(name string, revision int) string { return prefixOf(name) + strconv.Itoa(revision) }

func prefixOf(name string) string { return "sh.helm.release.v1." + name + ".v" }

// VersionOf returns the revision with a Secret of this name; zero for none.
func VersionOf(secret, release string) int {
	number, _ := strings.CutPrefix(secret, prefixOf(release))
	version, err := strconv.Atoi(number)
	if err != nil || version <= 0 || secret != secretName(release, version) {
		return 0
	}
	return version
}

// revisionOf reads the metadata of a revision's Secret. The version is from the name, as for Helm.
func revisionOf(secret *metav1.PartialObjectMetadata, version int) Revision {
	return Revision{
		Version:      version,
		Status:       cmp.Or(Status(secret.Labels["status"]), StatusUnknown),
		ModifiedAt:   modifiedAt(secret),
		Item:         secret.Labels[ItemLabel],
		Installation: secret.Labels[InstallationLabel],
		Input:        digestOf(secret.Labels, InputLabel, version),
		Job:          digestOf(secret.Labels, JobLabel, version),
		Children:     digestOf(secret.Labels, ChildrenLabel, version),
		Bequeather:   secret.Annotations[BequeathedAnnotation],
	}
}

// modifiedAt returns the time of the last write of a revision's content. The label with this name is no help: it is
// by the clock of its writer, and Helm often writes the old one again.
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
