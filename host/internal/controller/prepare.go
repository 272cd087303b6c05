package controller

import (
	"context"
	"errors"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
)

// prepare resolves what the plugin needs to know. Errors are those of package target, contract.Error, or of the API
// server. Credentials are read only for a plugin that takes them, once for a call; what is wrong with them is for the
// plugin to judge and no error.
func (j *job) prepare(ctx context.Context) (plugin.Call, error) {
	deadline, err := contract.Deadline(j.item)
	if err != nil {
		return plugin.Call{}, err
	}
	lsContext, contextErr := j.r.targets.Context(ctx, j.item)
	resolved, targetErr := j.r.targets.Target(ctx, j.item)
	if err := errors.Join(targetErr, contextErr); err != nil {
		return plugin.Call{}, err
	}
	c := plugin.Call{Target: resolved, Context: lsContext, Deadline: deadline}
	if j.plugin.Info().Capabilities.ContextCredentials {
		if c.Credentials, err = target.Credentials(ctx, j.r.targets, lsContext); err != nil {
			return plugin.Call{}, err
		}
	}
	return c, nil
}
