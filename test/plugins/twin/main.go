// Command twin is a deployer that claims the type of the mock deployer, for tests of what happens then.
package main

import (
	"context"

	"github.com/pergola-deploy/pergola/sdk"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
)

type twin struct{}

func main() {
	sdk.Serve(twin{}, sdk.Name("twin"), sdk.Types(mockv1alpha1.Type))
}

// Reconcile does nothing.
func (twin) Reconcile(context.Context, *sdk.Request) (*sdk.Response, error) {
	return nil, nil //nolint:nilnil // done, without anything to report
}

// Delete does nothing.
func (twin) Delete(context.Context, *sdk.Request) (*sdk.Response, error) {
	return nil, nil //nolint:nilnil // done, without anything to report
}
