// Command hello is the smallest useful deployer: it exports the greeting that its deploy items ask for.
package main

import (
	"context"

	"github.com/pergola-deploy/pergola/sdk"
)

type config struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Greeting   string `json:"greeting"`
}

type deployer struct{}

func (deployer) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	var c config
	if err := req.DecodeConfig(&c); err != nil {
		return nil, err
	}
	if c.Greeting == "" {
		return nil, sdk.ConfigurationError("GreetingMissing", "spec.config.greeting: expected a text, but it is empty")
	}
	return &sdk.Response{Exports: map[string]any{"greeting": c.Greeting}}, nil
}

func (deployer) Delete(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	req.Log.Info("a greeting leaves nothing behind")
	return &sdk.Response{}, nil
}

func main() {
	sdk.Serve(deployer{}, sdk.Name("hello"), sdk.Version("0.1.0"), sdk.Types("example.org/hello"))
}
