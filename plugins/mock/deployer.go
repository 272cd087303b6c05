package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
)

const reasonFailed = "MockFailed"

// pollAfter is the pause between calls of a job without an end.
const pollAfter = 30 * time.Second

// phases are all phases of a deploy item.
var phases = []v1alpha1.DeployItemPhase{
	v1alpha1.DeployItemPhaseInit, v1alpha1.DeployItemPhaseProgressing, v1alpha1.DeployItemPhaseCompleting,
	v1alpha1.DeployItemPhaseSucceeded, v1alpha1.DeployItemPhaseFailed,
	v1alpha1.DeployItemPhaseInitDelete, v1alpha1.DeployItemPhaseDeleting, v1alpha1.DeployItemPhaseDeleteFailed,
}

// deployer ends jobs as their provider configuration says.
type deployer struct{}

var (
	_ sdk.Deployer  = (*deployer)(nil)
	_ sdk.Hooker    = (*deployer)(nil)
	_ sdk.Validator = (*deployer)(nil)
)

// Reconcile ends the job in the configured phase.
func (d *deployer) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	config, err := read(req)
	if err != nil {
		return nil, err
	}
	res, err := response(config)
	if err != nil {
		return nil, err
	}
	if _, err := parseSchedule(config.ContinuousReconcile); err != nil {
		req.Warning(reasonSchedule,
			fmt.Sprintf("there is no continuous reconciliation: spec.config.continuousReconcile.%v", err))
	}
	req.Log.Debug("reconciled", "phase", phase(config))
	return finish(res, phase(config))
}

// Validate implements sdk.Validator.
func (d *deployer) Validate(_ context.Context, req *sdk.Request) (*sdk.ValidateResponse, error) {
	config, err := read(req)
	if err == nil {
		_, err = response(config)
	}
	return nil, err
}

// read returns the provider configuration.
func read(req *sdk.Request) (*mockv1alpha1.ProviderConfiguration, error) {
	config := &mockv1alpha1.ProviderConfiguration{}
	if err := req.DecodeConfig(config); err != nil {
		return nil, err
	}
	if config.APIVersion != mockv1alpha1.GroupVersion || config.Kind != mockv1alpha1.Kind {
		return nil, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
			"spec.config: expected apiVersion %q and kind %q, but found %q and %q",
			mockv1alpha1.GroupVersion, mockv1alpha1.Kind, config.APIVersion, config.Kind)
	}
	if !slices.Contains(phases, phase(config)) {
		return nil, sdk.ConfigurationError(sdk.ReasonConfigInvalid,
			"spec.config: expected a phase of a deploy item, one of %v, but found %q", phases, phase(config))
	}
	return config, nil
}

// Delete has nothing to remove.
func (d *deployer) Delete(context.Context, *sdk.Request) (*sdk.Response, error) {
	return nil, nil //nolint:nilnil // done, without anything to report
}

func phase(config *mockv1alpha1.ProviderConfiguration) v1alpha1.DeployItemPhase {
	switch {
	case config.Phase != nil:
		return *config.Phase
	case config.InitialPhase != nil:
		return *config.InitialPhase
	default:
		return v1alpha1.DeployItemPhaseSucceeded
	}
}

// response returns the provider status and the exports of the configuration, common to all phases.
func response(config *mockv1alpha1.ProviderConfiguration) (*sdk.Response, error) {
	res := &sdk.Response{}
	if config.ProviderStatus != nil {
		res.ProviderStatus = json.RawMessage(config.ProviderStatus.Raw)
	}
	if config.Export != nil {
		if err := json.Unmarshal(config.Export.Raw, &res.Exports); err != nil {
			return nil, sdk.ConfigurationError(sdk.ReasonConfigInvalid, "spec.config.export: expected a JSON object: %w", err)
		}
	}
	return res, nil
}

func finish(res *sdk.Response, phase v1alpha1.DeployItemPhase) (*sdk.Response, error) {
	switch phase {
	case v1alpha1.DeployItemPhaseSucceeded:
		return res, nil
	case v1alpha1.DeployItemPhaseFailed, v1alpha1.DeployItemPhaseDeleteFailed:
		return res, sdk.ConfigurationError(reasonFailed, "spec.config: the provider configuration asks for phase %s", phase)
	default:
		res.InProgress = &sdk.InProgress{
			WaitingFor: fmt.Sprintf("nothing: the provider configuration asks for phase %s", phase),
			PollAfter:  pollAfter,
		}
		return res, nil
	}
}
