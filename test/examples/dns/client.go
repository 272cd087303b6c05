package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/httperror"
)

// zone is the API behind a Target, for one call of the deployer.
type zone struct {
	http *http.Client
	name string

	// Endpoint and Token are the content of the Target.
	Endpoint string `json:"endpoint"`
	Token    string `json:"token"`
}

// zoneOf returns the zone of a Target. Errors show nothing of its content.
func zoneOf(target *sdk.Target, client *http.Client) (*zone, error) {
	z := &zone{http: client}
	if err := target.Decode(z); err != nil {
		return nil, err
	}
	if z.Endpoint == "" || z.Token == "" {
		return nil, sdk.ConfigurationError(sdk.ReasonTargetInvalid, "Target %q: endpoint or token is empty", target.Name)
	}
	z.name = fmt.Sprintf("the zone of Target %q", target.Name)
	return z, nil
}

// call makes a request, and reads the answer into out. found is false if there is nothing to read or to delete.
func (z *zone) call(ctx context.Context, method, path string, in, out any) (found bool, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return false, fmt.Errorf("write the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, z.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return false, sdk.ConfigurationError(sdk.ReasonTargetInvalid, "%s: its endpoint is no URL", z.name)
	}
	req.Header.Set("Authorization", "Bearer "+z.Token)
	res, err := z.http.Do(req)
	if err != nil {
		return false, httperror.Explain(z.name, err)
	}
	defer func() { _ = res.Body.Close() }() // all of it is read
	if res.StatusCode == http.StatusNotFound && method != http.MethodPut {
		return false, nil
	}
	if err := httperror.Check(z.name, res); err != nil {
		return false, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if out == nil {
		return true, nil
	}
	return true, httperror.Explain(z.name, json.NewDecoder(res.Body).Decode(out))
}
