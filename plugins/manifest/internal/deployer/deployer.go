// Package deployer is the deployer of plain Kubernetes manifests. What it shares with other deployers lives in
// plugins/internal; here is how the parts work together.
package deployer

import (
	"context"
	"errors"
	"time"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/internal/targeterror"
	"github.com/pergola-deploy/pergola/sdk"
)

// reasonTarget is given to the error about a Target that cannot be used.
const reasonTarget = "TargetInvalid"

// Deployer deploys plain Kubernetes manifests. It keeps nothing between calls but clients.
type Deployer struct {
	targets *targetclient.Cache
}

var (
	_ sdk.Deployer  = (*Deployer)(nil)
	_ sdk.Renderer  = (*Deployer)(nil)
	_ sdk.Validator = (*Deployer)(nil)
	_ sdk.Hooker    = (*Deployer)(nil)
)

// New returns a deployer that gets its clients from targets.
func New(targets *targetclient.Cache) *Deployer { return &Deployer{targets: targets} }

// Reconcile applies the manifests, deletes what was applied before and is no longer among them, and waits until all is ready
// and the exports can be read.
func (d *Deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	began := time.Now()
	config, err := readConfig(req)
	if err != nil {
		return nil, err
	}
	account, err := readAccount(req)
	if err != nil {
		return nil, err
	}
	client, err := d.client(req.Target)
	if err != nil {
		return nil, err
	}
	plan, err := apply.NewPlan(ctx, client, config.manifests, labelsFor(req.DeployItem.Name), began)
	if err != nil {
		return nil, during(stepApply, err)
	}

	j := &job{req: req, client: client, account: account, began: began}
	live, res, err := j.apply(ctx, plan)
	if res != nil || err != nil {
		return res, err
	}
	if res, err := j.cleanUp(ctx, plan); res != nil || err != nil {
		return res, err
	}
	if config.checkReadiness {
		if res, err := j.checkReadiness(live); res != nil || err != nil {
			return res, err
		}
	}
	exports, res, err := j.readExports(ctx, config.exports, live)
	if res != nil || err != nil {
		return res, err
	}
	return &sdk.Response{ProviderStatus: account.unsaved(), Exports: exports}, nil
}

// Delete deletes the managed objects and waits until they are gone.
func (d *Deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	began := time.Now()
	account, err := readAccount(req)
	if err != nil {
		return nil, err
	}
	entries := account.ledger.Entries()
	if len(entries) == 0 {
		return nil, nil //nolint:nilnil // the job is done, see sdk.Deployer
	}
	if err := checkDeletable(req); err != nil {
		return nil, err
	}
	client, err := d.client(req.Target)
	if err != nil {
		return nil, err
	}
	j := &job{req: req, client: client, account: account, began: began}
	if res, err := j.remove(ctx, stepDelete, entries); res != nil || err != nil {
		return res, err
	}
	return &sdk.Response{ProviderStatus: account.unsaved()}, nil
}

// client returns the client for a Target. No part of the Target's content gets into the error.
func (d *Deployer) client(target *sdk.Target) (*targetclient.Client, error) {
	kubeconfig, err := target.Kubeconfig()
	if err != nil {
		return nil, err
	}
	client, err := d.targets.Get(kubeconfig)
	if err != nil {
		return nil, sdk.ConfigurationError(reasonTarget, "Target %q: %w", target.Name, err)
	}
	return client, nil
}

// during adds the step of the job to an error, whose reason and codes stay.
func during(step string, err error) error {
	out := &sdk.Error{Operation: step, Reason: targeterror.ReasonTarget, Err: err}
	var known *sdk.Error
	if errors.As(err, &known) && known.Reason != "" {
		out.Reason = known.Reason
	}
	return out
}
