package helm3

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// connect makes Helm's clients. It sends no request.
func (o *operation) connect(c *Client) (err error) {
	if o.cluster, err = newCluster(o, c); err != nil {
		return err
	}
	core, err := corev1client.NewForConfig(o.cluster.cleanup)
	if err != nil {
		return fmt.Errorf("make a client of the target cluster: %w", err)
	}
	o.history = newHistory(o, core)
	o.objects = newObjectClient(o)
	releases := storage.Init(o.history)
	releases.MaxHistory, releases.Log = o.req.MaxHistory, o.logSteps
	o.config = &action.Configuration{
		RESTClientGetter: o.cluster, Releases: releases, KubeClient: o.objects, Log: o.logSteps,
	}
	return nil
}

// deploy is the actions Install and Upgrade. The stored revisions decide between the two: they may have changed since
// the caller's look.
func (o *operation) deploy() (*helm.Result, error) {
	c, definitions, err := o.prepare()
	if err != nil {
		return nil, err
	}
	revisions, unreadable, err := o.history.revisions(o.req.Interrupted)
	switch {
	case err != nil:
		return nil, err
	case len(unreadable) > 0:
		return nil, failure(helm.ClusterFailed, "these Secrets in namespace %s are revisions of the release, but cannot be "+
			"read: %s; delete those that are of no use", o.req.Release.Namespace, strings.Join(unreadable, ", "))
	}
	i := slices.IndexFunc(revisions, func(r *release.Release) bool { return r.Version == o.req.Retry })
	if i >= 0 && i >= len(revisions)-2 && revisions[i].Info.Status == release.StatusFailed {
		o.attempt = newAttempt(revisions[i], revisions[i+1:])
		if o.req.MaxHistory > 0 { // zero bounds nothing
			o.config.Releases.MaxHistory++ // it goes when its successor is stored
		}
	}
	installs, err := o.installs(revisions)
	if err != nil {
		return nil, err
	}
	result := &helm.Result{Chart: metadataOf(c), Definitions: definitions}
	if _, err := o.checkCluster(c); err != nil {
		return nil, err
	}
	values, err := o.values()
	if err != nil {
		return nil, err
	}
	o.progress("Render", "Rendering chart %s", nameOf(c))
	var rel *release.Release
	if installs {
		rel, err = o.newInstall(len(revisions) > 0).Run(c, values)
	} else {
		rel, err = o.newUpgrade().Run(o.req.Release.Name, c, values)
	}
	if err == nil && o.objects.before != "" && o.objects.applied == nil {
		_, err = o.objects.Update(nil, nil, false) // Helm does not update for a chart without objects
	}
	if err != nil {
		return nil, err
	}
	result.Revision = rel.Version
	if result.Objects, err = objectsOf("", rel.Manifest); err != nil {
		return nil, err
	}
	result.Hooks, err = o.hooksOf(rel.Hooks)
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
		return false, o.pending(last.Version)
	case status == release.StatusUninstalling:
		return false, failure(helm.Pending, "the release is being uninstalled by somebody else")
	case status == release.StatusUninstalled:
		return true, nil
	case status != release.StatusFailed || slices.ContainsFunc(revisions, wasDeployed):
		return false, nil
	default:
		o.history.failed = last.Version
		for _, r := range slices.Backward(revisions) {
			o.objects.before += "---\n" + r.Manifest + "\n"
		}
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
	in.SkipSchemaValidation = true // see validate
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
	up.SkipSchemaValidation = true // see validate
	up.Atomic, up.Wait, up.Timeout = o.req.Options.Atomic, o.req.Options.Wait, o.req.Options.Timeout
	up.Force, up.TakeOwnership = o.req.Options.Force, o.req.Options.TakeOwnership
	return up
}

// uninstall is the action Uninstall.
func (o *operation) uninstall() (*helm.Result, error) {
	o.enter(changing)
	revisions, unreadable, err := o.history.revisions(o.req.Interrupted)
	if err != nil {
		return nil, err
	}
	for _, name := range unreadable {
		if err := o.history.secrets.Delete(o.ctx, name, metav1.DeleteOptions{}); err != nil {
			return nil, fmt.Errorf("delete Secret %s: %w", name, err)
		}
		o.warn(helm.ReasonUnreadable, "Secret %s is deleted: it is a revision of the release that cannot be read", name)
	}
	revisions = slices.DeleteFunc(revisions, func(r *release.Release) bool { return slices.Contains(unreadable, keyOf(r)) })
	if len(revisions) == 0 {
		return &helm.Result{}, nil
	}
	last := revisions[len(revisions)-1]
	if last.Info.Status.IsPending() {
		return nil, o.pending(last.Version)
	}
	o.history.running, o.history.what = last, "delete" // Helm notes it after the first hooks
	if !o.req.Since.IsZero() {
		o.attempt = attemptSince(last, o.req.Since)
	}
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

// prepare loads the chart, checks the values, and returns the definitions of the chart and the enabled sub-charts. It
// needs no cluster.
func (o *operation) prepare() (*chart.Chart, []helm.Object, error) {
	files, c, err := o.loadChart()
	if err != nil {
		return nil, nil, err
	}
	o.redactor.Publish(c.Name(), c.Metadata.Version, c.Metadata.AppVersion)
	o.redactor.Publish(pathsOf(c)...)
	other, err := load(files)
	if err != nil {
		return nil, nil, err
	}
	values, _, err := o.combine(other)
	if err != nil {
		return nil, nil, err
	}
	definitions, err := definitionsOf(other)
	if err != nil {
		return nil, nil, err
	}
	return c, definitions, o.validate(other, values)
}

// checkCluster refuses a chart for other versions of Kubernetes than the cluster's.
func (o *operation) checkCluster(c *chart.Chart) (*version.Info, error) {
	found, err := o.cluster.discovery.version()
	if err != nil {
		return nil, fmt.Errorf("ask the target cluster for its version: %w", err)
	}
	if wanted := c.Metadata.KubeVersion; wanted != "" && !chartutil.IsCompatibleRange(wanted, found.GitVersion) {
		return nil, failure(helm.ChartInvalid,
			"chart %s is made for the Kubernetes versions %s, but the cluster has %s", nameOf(c), wanted, found.GitVersion)
	}
	return found, nil
}
