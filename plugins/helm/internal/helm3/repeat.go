package helm3

import (
	"errors"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/resource"
)

// The annotations by which Helm knows the objects of a release.
const (
	releaseNameAnnotation      = "meta.helm.sh/release-name"
	releaseNamespaceAnnotation = "meta.helm.sh/release-namespace"
)

// installs tells whether an installation is to be made. There may be one that has failed in its place, for which it prepares: Helm can replace
// that, but
//
//   - it calls the failed revision superseded, as if it had been deployed,
//   - it leaves objects and fields on the target that the failed installation had and the new one has not.
//
// A release that was deployed before is upgraded, whatever the caller has thought.
func (o *operation) installs(revisions []*release.Release) bool {
	if len(revisions) == 0 {
		return true
	}
	last := revisions[len(revisions)-1]
	deployed := slices.ContainsFunc(revisions, func(r *release.Release) bool {
		return r.Info.Status == release.StatusDeployed || r.Info.Status == release.StatusSuperseded
	})
	switch {
	case last.Info.Status == release.StatusUninstalled:
		return true
	case deployed || last.Info.Status != release.StatusFailed:
		return false
	default:
		o.history.leaveFailed(last.Version)
		o.objects.before = last
		return true
	}
}

// leaveFailed keeps a revision that has failed from being called superseded.
func (h *history) leaveFailed(revision int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = revision
}

func (h *history) staysFailed(revision int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed == revision
}

// deleteStale deletes what the failed installation has made and a manifest has not. That is done before there is a revision of the manifest: at
// any time nothing is left but objects of the last revision.
func (k *objectClient) deleteStale(manifest string) error {
	if k.before == nil {
		return nil
	}
	before, err := k.beforeObjects()
	if err != nil {
		return err
	}
	wanted, err := k.buildServed(manifest)
	if err != nil {
		return err
	}
	var stale kube.ResourceList
	for _, info := range before.Difference(wanted) {
		ours, err := k.isOurs(info)
		if err != nil {
			return err
		}
		if ours {
			stale = append(stale, info)
		}
	}
	if len(stale) == 0 {
		return nil
	}
	k.o.progress("DeleteObjects", "Deleting "+enumerate(stale))
	_, errs := k.inner.Delete(stale)
	return errors.Join(errs...)
}

// isOurs tells whether an object exists, belongs to the release and does not say that it is to be kept: who has failed to make an object need
// not be the one who has it now.
func (k *objectClient) isOurs(info *resource.Info) (bool, error) {
	err := info.Get()
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read what the failed installation has made: %w", err)
	}
	accessor, err := meta.Accessor(info.Object)
	if err != nil {
		return false, fmt.Errorf("read what the failed installation has made: %w", err)
	}
	annotations := accessor.GetAnnotations()
	return annotations[releaseNameAnnotation] == k.o.req.Release.Name && annotations[releaseNamespaceAnnotation] == k.o.req.Release.Namespace &&
		annotations[kube.ResourcePolicyAnno] != kube.KeepPolicy, nil
}

// asBefore returns objects that exist as the failed installation had them. Helm compares with what is being installed.
func (k *objectClient) asBefore(existing kube.ResourceList) (kube.ResourceList, error) {
	if k.before == nil {
		return existing, nil
	}
	before, err := k.beforeObjects()
	if err != nil {
		return nil, err
	}
	merged := make(kube.ResourceList, 0, len(existing))
	for _, info := range existing {
		if known := before.Get(info); known != nil {
			info = known
		}
		merged = append(merged, info)
	}
	return merged, nil
}

func (k *objectClient) beforeObjects() (kube.ResourceList, error) {
	objects, err := k.buildServed(k.before.Manifest)
	if err != nil {
		return nil, fmt.Errorf("read what the failed installation has made: %w", err)
	}
	return objects, nil
}
