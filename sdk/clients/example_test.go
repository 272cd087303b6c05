package clients_test //nolint:testableexamples // it serves until a host ends it

import (
	"context"
	"net/http"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/clients"
)

// account is the content of a Target.
type account struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// api is a client with an account.
type api struct {
	account
	http.Client
}

// deployer keeps the clients of its Targets.
type deployer struct {
	clients clients.Cache[*api]
}

// clientFor returns the client for the Target of a request.
func (d *deployer) clientFor(req *sdk.Request) (*api, error) {
	var a account
	if err := req.Target.Decode(&a); err != nil {
		return nil, err
	}
	return d.clients.Get(req.Target.Content, func() (*api, error) { return &api{account: a}, nil })
}

// Reconcile uses the client.
func (d *deployer) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	client, err := d.clientFor(req)
	if err != nil {
		return nil, err
	}
	client.CloseIdleConnections()
	return nil, nil
}

// Delete does nothing here.
func (d *deployer) Delete(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }

func ExampleCache() {
	sdk.Serve(&deployer{}, sdk.Name("dns"), sdk.Types("example.org/dns"))
}
