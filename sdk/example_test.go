package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// volumes is a deployer that makes volumes somewhere outside.
type volumes struct{ api volumeAPI }

// volumeAPI is where the volumes live.
type volumeAPI interface {
	Create(ctx context.Context, name string, gib int) error
	Ready(ctx context.Context, name string) (bool, error)
	Remove(ctx context.Context, name string) (gone bool, err error)
}

type volumeConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	GiB        int    `json:"gib"`
}

type volumeStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Volume     string `json:"volume"`
}

func (d *volumes) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	var config volumeConfig
	if err := req.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if config.GiB <= 0 {
		return nil, sdk.ConfigurationError("SizeInvalid",
			"spec.config.gib: expected a positive number, but found %d", config.GiB)
	}
	// Saved first: after a crash in Create, Delete has to know the volume.
	name := string(req.DeployItem.UID)
	status := volumeStatus{APIVersion: "example.org/v1", Kind: "VolumeStatus", Volume: name}
	if err := req.SaveProviderStatus(ctx, status); err != nil {
		return nil, err
	}
	if err := d.api.Create(ctx, name, config.GiB); err != nil {
		return nil, fmt.Errorf("create volume %q: %w", name, err)
	}
	ready, err := d.api.Ready(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("check volume %q: %w", name, err)
	}
	if !ready {
		return sdk.WaitFor(fmt.Sprintf("volume %q to become ready", name), 10*time.Second), nil
	}
	return &sdk.Response{Exports: map[string]any{"volume": name}}, nil
}

func (d *volumes) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	var status volumeStatus
	found, err := req.DecodeProviderStatus(&status)
	if err != nil || !found {
		return nil, err
	}
	gone, err := d.api.Remove(ctx, status.Volume)
	if err != nil {
		return nil, fmt.Errorf("remove volume %q: %w", status.Volume, err)
	}
	if !gone {
		return sdk.WaitFor(fmt.Sprintf("volume %q to go", status.Volume), 10*time.Second), nil
	}
	return nil, nil
}

// The main function of a plugin.
func ExampleServe() { //nolint:testableexamples // it serves until a host ends it
	sdk.Serve(&volumes{},
		sdk.Name("volumes"),
		sdk.Version("1.0.0"),
		sdk.Types("example.org/volume"))
}

// Errors keep their codes, however they are wrapped.
func ExampleCodes() {
	denied := &sdk.Error{
		Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized},
		Reason: "Denied",
		Err:    errors.New("the token has expired"),
	}
	err := fmt.Errorf("create volume: %w", denied)
	fmt.Println(err)
	fmt.Println(sdk.Codes(err))
	// Output:
	// create volume: the token has expired
	// [ERR_UNAUTHORIZED]
}

// audit is a hook that refuses items without an owner.
func audit(_ context.Context, item *v1alpha1.DeployItem, _ *v1alpha1.Target, _ hook.Type) (*hook.Result, error) {
	if item.Labels["example.org/owner"] == "" {
		return &hook.Result{AbortReconcile: true, RequeueAfter: time.Minute}, nil
	}
	return nil, nil
}

// The main function of a plugin that has nothing but hooks.
func ExampleServeHooks() { //nolint:testableexamples // it serves until a host ends it
	sdk.ServeHooks(hook.Hooks{}.RegisterHook(audit, hook.BeforeReconcile),
		sdk.Name("audit"),
		sdk.HookedTypes("example.org/volume"))
}
