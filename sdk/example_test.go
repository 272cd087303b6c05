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
