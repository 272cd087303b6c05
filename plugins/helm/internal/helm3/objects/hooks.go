package objects

import (
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
)

// hookWith returns a revision's hook with a manifest; nil for none.
func hookWith(rel *release.Release, manifest string) *release.Hook {
	if rel == nil {
		return nil
	}
	for _, h := range rel.Hooks {
		if h.Manifest == manifest {
			return h
		}
	}
	return nil
}

// hookOf returns the hook of a list of objects; nil for others.
func (k *Client) hookOf(resources kube.ResourceList) *release.Hook {
	if len(resources) == 0 {
		return nil
	}
	return k.hooks[resources[0]]
}

// WatchUntilReady waits until the objects of a hook are complete.
func (k *Client) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	if k.history.Attempt.Skipped(k.hookOf(resources)) {
		return nil
	}
	timeout = k.within(timeout)
	err := k.untilOver(func() error { return k.inner.WatchUntilReady(resources, timeout) })
	if wait.Interrupted(err) {
		err = fmt.Errorf("not complete within %s: %w", timeout, err)
	}
	// Helm has a text, and no type, for a failed Job or Pod.
	return k.hookFailed(k.hookOf(resources), helm.ChartHookFailed, err)
}

// hookFailed records an error and returns it with the hook, and with the option to uninstall without hooks; h may be
// nil. otherwise is the kind of an error without one.
func (k *Client) hookFailed(h *release.Hook, otherwise helm.Kind, err error) error {
	if h == nil || err == nil {
		return k.journal.Failed(err)
	}
	way := ""
	if k.req.Action == helm.Uninstall {
		way = "; to uninstall without hooks, set helmDeploymentConfig.uninstall.disableHooks of the deploy item to true"
	}
	return k.journal.Failed(
		journal.Failure(journal.KindOf(err, otherwise), "%s has failed: %v%s", k.describe(h), err, way))
}

// describe names a hook and its event.
func (k *Client) describe(h *release.Hook) string {
	running, what := k.history.Current()
	when := "pre"
	if running != nil && k.applied == running {
		when = "post"
	}
	return fmt.Sprintf("%s-%s hook %s %q of %s", when, what, h.Kind, h.Name, h.Path)
}

// warnOfRepeated warns of a second run of a hook in the same job, and of the objects it replaces.
func (k *Client) warnOfRepeated(h *release.Hook, resources kube.ResourceList) {
	phase, again := k.history.Attempt.Begins(h)
	if !again {
		return
	}
	replaces := ""
	if slices.Contains(h.DeletePolicies, release.HookBeforeHookCreation) {
		replaces = ", and replaces " + enumerate(resources)
	}
	k.journal.Warn(helm.ReasonHookRepeated, "%s runs again in this job%s: its earlier run is %s",
		k.describe(h), replaces, phase)
}
