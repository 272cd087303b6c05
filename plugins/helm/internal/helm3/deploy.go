package helm3

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// connect makes the clients that Helm needs. It sends no request.
func (o *operation) connect() error {
	c, err := newCluster(o)
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.cluster = c
	o.mu.Unlock()
	core, err := c.core()
	if err != nil {
		return err
	}
	h := newHistory(o, core)
	if err := o.store(h); err != nil {
		return err
	}
	if o.objects, err = newObjectClient(o, c); err != nil {
		return err
	}
	releases := storage.Init(h)
	releases.MaxHistory = o.req.MaxHistory
	releases.Log = o.journal.printf
	o.config = &action.Configuration{
		RESTClientGetter: c, Releases: releases, KubeClient: o.objects, Log: o.journal.printf,
	}
	return nil
}

// deploy is the actions Install and Upgrade. Which of both it is depends on what there is: it may have changed since the caller has looked.
func (o *operation) deploy() (*helm.Result, error) {
	c, err := o.prepare()
	if err != nil {
		return nil, err
	}
	if err := o.connect(); err != nil {
		return nil, err
	}
	revisions, err := o.revisions()
	if err != nil {
		return nil, err
	}
	metadata := metadataOf(c)
	definitions, err := definitionsOf(c)
	if err != nil {
		return nil, err
	}
	if err := o.checkCluster(c); err != nil {
		return nil, err
	}
	values, err := o.values()
	if err != nil {
		return nil, err
	}
	o.progress("Render", "Rendering chart "+nameOf(c))
	var rel *release.Release
	if o.installs(revisions) {
		rel, err = o.newInstall(len(revisions) > 0).Run(c, values)
	} else {
		rel, err = o.newUpgrade().Run(o.req.Release.Name, c, values)
	}
	if err != nil {
		return nil, err
	}
	return o.result(rel, metadata, definitions)
}

// prepare loads the chart and checks the values. It needs no cluster.
func (o *operation) prepare() (*chart.Chart, error) {
	o.clock.start()
	defer o.clock.stop()
	s, c, err := o.loadChart()
	if err != nil {
		return nil, err
	}
	o.secrecy.Publish(c.Name(), c.Metadata.Version, c.Metadata.AppVersion)
	o.secrecy.Publish(pathsOf(c)...)
	other, err := s.load()
	if err != nil {
		return nil, err
	}
	return c, o.validate(other)
}

// revisions returns all of them, oldest first, after those that were interrupted are marked. Nobody works on the newest one.
func (o *operation) revisions() ([]*release.Release, error) {
	if err := o.history.recover(o.req.Interrupted); err != nil {
		return nil, err
	}
	all, err := o.history.revisions()
	if err != nil {
		return nil, fmt.Errorf("read the release: %w", err)
	}
	if names := o.history.unreadable(all); len(names) > 0 {
		return nil, &helm.Error{Kind: helm.ClusterFailed, Message: fmt.Sprintf(
			"these Secrets in namespace %s are revisions of the release, but cannot be read: %s; delete those that are of no use",
			o.req.Release.Namespace, strings.Join(names, ", "))}
	}
	if len(all) == 0 {
		return nil, nil
	}
	last := all[len(all)-1]
	if last.Info.Status.IsPending() {
		return nil, o.pending(last.Version)
	}
	if last.Info.Status == release.StatusUninstalling {
		return nil, &helm.Error{Kind: helm.Pending, Message: "the release is being uninstalled by somebody else"}
	}
	return all, nil
}

func (o *operation) checkCluster(c *chart.Chart) error {
	version, err := o.cluster.discovery.version()
	if err != nil {
		return fmt.Errorf("ask the target cluster for its version: %w", err)
	}
	return checkVersion(c, version.GitVersion)
}

// newInstall returns the first revision's operation, or with replace the one after a release that was uninstalled with its history kept, or
// whose installation has failed.
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

// newUpgrade returns the operation of every other revision. Its values are those of the request and nothing else.
func (o *operation) newUpgrade() *action.Upgrade {
	up := action.NewUpgrade(o.config)
	up.Namespace = o.req.Release.Namespace
	up.ResetValues = true
	up.MaxHistory = o.req.MaxHistory
	up.Labels = o.req.Labels
	up.PostRenderer = postRenderer{o}
	up.SkipSchemaValidation = true // see validate
	up.Atomic, up.Wait, up.Timeout = o.req.Options.Atomic, o.req.Options.Wait, o.req.Options.Timeout
	up.Force, up.TakeOwnership = o.req.Options.Force, o.req.Options.TakeOwnership
	return up
}

func (o *operation) result(rel *release.Release, metadata helm.Metadata, definitions []helm.Object) (*helm.Result, error) {
	documents, err := parseManifest(rel.Manifest)
	if err != nil {
		return nil, err
	}
	hooks, err := hooksOf(rel.Hooks)
	if err != nil {
		return nil, err
	}
	return &helm.Result{
		Revision: rel.Version, Chart: metadata, Definitions: definitions, Objects: objectsOf(documents), Hooks: hooks,
	}, nil
}
