package helm3

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/version"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/render"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/storage"
)

// deploy is the actions Install and Upgrade. The stored revisions decide between the two: they may have changed since
// the caller's look.
func (o *operation) deploy() (*helm.Result, error) {
	c, definitions, err := o.renderer.Prepare()
	if err != nil {
		return nil, err
	}
	revisions, unreadable, err := o.history.Revisions(o.req.Interrupted)
	switch {
	case err != nil:
		return nil, err
	case len(unreadable) > 0:
		return nil, journal.Failure(helm.ClusterFailed, "revisions of the release cannot be read: repair these Secrets in "+
			"namespace %s, or delete them to fall back to the other revisions: %s",
			o.req.Release.Namespace, strings.Join(unreadable, ", "))
	}
	if o.history.Retry(revisions) && o.req.MaxHistory > 0 { // zero bounds nothing
		o.config.Releases.MaxHistory++ // the attempt goes when its successor is stored
	}
	installs, err := o.installs(revisions)
	if err != nil {
		return nil, err
	}
	result := &helm.Result{Chart: render.MetadataOf(c), Definitions: definitions}
	if _, err := o.checkCluster(c); err != nil {
		return nil, err
	}
	values, err := o.renderer.Values()
	if err != nil {
		return nil, err
	}
	o.journal.Progress("Render", "Rendering chart %s", render.NameOf(c))
	var rel *release.Release
	if installs {
		rel, err = o.newInstall(len(revisions) > 0).Run(c, values)
	} else {
		rel, err = o.newUpgrade().Run(o.req.Release.Name, c, values)
	}
	if err == nil {
		err = o.objects.RemoveReplaced()
	}
	if err != nil {
		return nil, err
	}
	result.Revision = rel.Version
	if result.Objects, err = render.Objects("", rel.Manifest); err != nil {
		return nil, err
	}
	result.Hooks, err = o.renderer.Hooks(rel.Hooks)
	return result, err
}

// installs reports whether the release is to be installed, possibly in the place of a failed installation. Helm can
// replace that one, but calls the failed revision superseded, as if it had been deployed, and leaves its objects if
// the new one lacks them. A release deployed before is upgraded, whatever the caller's action.
func (o *operation) installs(revisions []*release.Release) (bool, error) {
	if len(revisions) == 0 {
		return true, nil
	}
	last := revisions[len(revisions)-1]
	switch status := last.Info.Status; {
	case status.IsPending():
		return false, storage.Pending(last.Version)
	case status == release.StatusUninstalling:
		return false, journal.Failure(helm.Pending, "another client is uninstalling the release")
	case status == release.StatusUninstalled:
		return true, nil
	case status != release.StatusFailed || slices.ContainsFunc(revisions, wasDeployed):
		return false, nil
	default:
		o.history.Failed = last.Version
		o.objects.Replace(revisions)
		return true, nil
	}
}

func wasDeployed(r *release.Release) bool {
	return r.Info.Status == release.StatusDeployed || r.Info.Status == release.StatusSuperseded
}

// newInstall returns the operation of the first revision; with replace, of the one after an uninstallation with its
// history kept, or after failed installations.
func (o *operation) newInstall(replace bool) *action.Install {
	in := action.NewInstall(o.config)
	in.ReleaseName, in.Namespace = o.req.Release.Name, o.req.Release.Namespace
	in.Replace = replace
	in.Labels = o.req.Labels
	in.PostRenderer = postRenderer{o}
	in.SkipSchemaValidation = true // see render.Renderer
	in.Atomic, in.Wait, in.Timeout = o.req.Options.Atomic, o.req.Options.Wait, o.req.Options.Timeout
	in.Force, in.TakeOwnership = o.req.Options.Force, o.req.Options.TakeOwnership
	return in
}

// newUpgrade returns the operation of all other revisions. Its values are those of the request and nothing else.
func (o *operation) newUpgrade() *action.Upgrade {
	up := action.NewUpgrade(o.config)
	up.Namespace = o.req.Release.Namespace
	up.ResetValues = true
	up.MaxHistory = o.config.Releases.MaxHistory
	up.Labels = o.req.Labels
	up.PostRenderer = postRenderer{o}
	up.SkipSchemaValidation = true // see render.Renderer
	up.Atomic, up.Wait, up.Timeout = o.req.Options.Atomic, o.req.Options.Wait, o.req.Options.Timeout
	up.Force, up.TakeOwnership = o.req.Options.Force, o.req.Options.TakeOwnership
	return up
}

// uninstall is the action Uninstall.
func (o *operation) uninstall() (*helm.Result, error) {
	o.journal.Enter(journal.Changing)
	revisions, unreadable, err := o.history.Revisions(o.req.Interrupted)
	if err != nil {
		return nil, err
	}
	for _, name := range unreadable {
		if err := o.history.DeleteUnreadable(name); err != nil {
			return nil, err
		}
	}
	revisions = slices.DeleteFunc(revisions, func(r *release.Release) bool {
		return slices.Contains(unreadable, storage.KeyOf(r))
	})
	if len(revisions) == 0 {
		return &helm.Result{}, nil
	}
	last := revisions[len(revisions)-1]
	if last.Info.Status.IsPending() {
		return nil, storage.Pending(last.Version)
	}
	o.history.Remove(last)
	un := action.NewUninstall(o.config)
	un.DisableHooks = o.req.Options.DisableHooks
	un.Wait, un.Timeout = o.req.Options.Wait, o.req.Options.Timeout
	response, err := un.Run(o.req.Release.Name)
	if err != nil {
		return nil, err
	}
	_, kept, _ := strings.Cut(strings.TrimSpace(response.Info), "\n") // the first line is about the kept objects
	return &helm.Result{Revision: last.Version, Kept: strings.ReplaceAll(kept, "\n", ", ")}, nil
}

// checkCluster refuses a chart for other versions of Kubernetes than the cluster's.
func (o *operation) checkCluster(c *chart.Chart) (*version.Info, error) {
	found, err := o.cluster.discovery.version()
	if err != nil {
		return nil, fmt.Errorf("ask the target cluster for its version: %w", err)
	}
	if wanted := c.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, found.GitVersion) {
		return nil, journal.Failure(helm.ChartInvalid,
			"chart %s is made for the Kubernetes versions %s, but the cluster has %s",
			render.NameOf(c), wanted, found.GitVersion)
	}
	return found, nil
}
