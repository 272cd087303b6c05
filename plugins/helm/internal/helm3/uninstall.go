package helm3

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/action"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

// uninstall is the action Uninstall.
func (o *operation) uninstall() (*helm.Result, error) {
	if err := o.connect(); err != nil {
		return nil, err
	}
	if err := o.history.recover(o.req.Interrupted); err != nil {
		return nil, err
	}
	all, err := o.history.revisions()
	if err != nil {
		return nil, fmt.Errorf("read the release: %w", err)
	}
	for _, name := range o.history.unreadable(all) {
		o.journal.printf("Secret %s of the release cannot be read and is deleted", name)
		if err := o.history.removeSecret(name); err != nil {
			return nil, fmt.Errorf("delete Secret %s: %w", name, err)
		}
	}
	if len(all) == 0 {
		return &helm.Result{}, nil
	}
	last := all[len(all)-1]
	if last.Info.Status.IsPending() {
		return nil, o.pending(last.Version)
	}
	o.history.remove(last)
	un := action.NewUninstall(o.config)
	un.Wait, un.Timeout = o.req.Options.Wait, o.req.Options.Timeout
	un.DeletionPropagation = "background"
	response, err := un.Run(o.req.Release.Name)
	if err != nil {
		return nil, err
	}
	kept := strings.TrimSpace(strings.TrimPrefix(response.Info, "These resources were kept due to the resource policy:\n"))
	return &helm.Result{Revision: last.Version, Kept: strings.ReplaceAll(kept, "\n", ", ")}, nil
}
