// Command dns is a deployer for records of a DNS zone behind an HTTP API. The API works asynchronously: it answers a
// change with an operation, and the change is there when the operation is done.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hook/continuousreconcile"
)

const (
	itemType v1alpha1.DeployItemType = "example.org/dns-record"
	// poll is the pause before the next look at an operation.
	poll = 2 * time.Second
)

// deployer keeps connections and no credentials: these come with each call.
type deployer struct{ http *http.Client }

var (
	_ sdk.Deployer        = deployer{}
	_ sdk.ForceReconciler = deployer{}
	_ sdk.Aborter         = deployer{}
	_ sdk.Differ          = deployer{}
	_ sdk.Validator       = deployer{}
	_ sdk.Hooker          = deployer{}
)

// status is the provider status, the memory of the deployer between calls.
type status struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Zone has the record by its ID. Both are saved before the creation.
	Zone string `json:"zone"`
	ID   string `json:"id"`
	// Operation is the change at work; empty for none.
	Operation string `json:"operation,omitempty"`
}

// published is a record in the zone.
type published struct {
	record

	// Published: the name servers have it.
	Published bool `json:"published"`
}

// operation is a change of the zone. The zone forgets it after a day.
type operation struct {
	ID, State, Message string
}

// begin returns the zone and the provider status for a call; saved is false before the first creation.
func (d deployer) begin(req *sdk.Request) (z *zone, s *status, saved bool, err error) {
	if z, err = zoneOf(req.Target, d.http); err != nil {
		return nil, nil, false, err
	}
	// The deployer chooses the ID, so that a repeated creation creates nothing twice.
	s = &status{APIVersion: apiVersion, Kind: "RecordStatus", Zone: z.Endpoint, ID: string(req.DeployItem.UID)}
	if saved, err = req.DecodeProviderStatus(s, s.Kind, apiVersion); err != nil {
		return nil, nil, false, err
	}
	if s.Zone != z.Endpoint {
		err := sdk.ConfigurationError(sdk.ReasonTargetChanged, "spec.target: the record is not in the zone of Target %q; "+
			"name a Target of its zone, or move the item", req.Target.Name)
		return nil, nil, false, err
	}
	return z, s, saved, nil
}

// Reconcile has the record published. A call looks at the operation at work, or starts one, and does not wait for it.
func (d deployer) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.publish(ctx, req, false)
}

// ForceReconcile publishes the record again, although nothing has changed. Reconcile then waits for the operation.
func (d deployer) ForceReconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	return d.publish(ctx, req, true)
}

func (d deployer) publish(ctx context.Context, req *sdk.Request, force bool) (*sdk.Response, error) {
	wanted, err := configs.Read(req, true)
	if err != nil {
		return nil, err // a mistake of the user: the job fails at once
	}
	z, s, saved, err := d.begin(req)
	if err != nil {
		return nil, err
	}
	if !saved {
		if err := req.SaveProviderStatus(ctx, s); err != nil {
			return nil, err // nothing may be created
		}
	}
	if !force {
		if err := s.look(ctx, z); err != nil || s.Operation != "" {
			return s.response(), err
		}
	}
	is := &published{}
	if _, err := z.call(ctx, http.MethodGet, "/records/"+s.ID, nil, is); err != nil {
		return nil, err
	}
	switch same := reflect.DeepEqual(is.record, *wanted); {
	case is.Published && same && !force:
		return &sdk.Response{ProviderStatus: s, Exports: map[string]any{"name": wanted.Name, "id": s.ID}}, nil
	case is.Published && !same: // drift, or another configuration
		req.Event("Changed", fmt.Sprintf("the record is %v in the zone, and becomes %v", is.record, *wanted))
	}
	return s.start(ctx, z, http.MethodPut, wanted)
}

// Delete removes the record, and is done when the zone does not know it any more.
func (d deployer) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	z, s, saved, err := d.begin(req)
	if err != nil || !saved { // without a provider status nothing was created
		return nil, err
	}
	if err := s.look(ctx, z); err != nil || s.Operation != "" {
		return s.response(), err
	}
	return s.start(ctx, z, http.MethodDelete, nil)
}

// Abort cancels the operation at work, and waits for its end.
func (d deployer) Abort(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	z, s, _, err := d.begin(req)
	if err != nil || s.Operation == "" {
		return nil, err
	}
	if _, err := z.call(ctx, http.MethodDelete, "/operations/"+s.Operation, nil, nil); err != nil {
		return nil, err
	}
	err = s.look(ctx, z)
	return s.response(), err
}

// start starts an operation on the record. One that gets lost in a crash is started again.
func (s *status) start(ctx context.Context, z *zone, method string, in any) (*sdk.Response, error) {
	o := &operation{}
	if found, err := z.call(ctx, method, "/records/"+s.ID, in, o); err != nil || !found {
		return nil, err // a missing record is deleted
	}
	s.Operation = o.ID
	return s.response(), nil
}

// look finds out whether the operation is still at work, and forgets it otherwise.
func (s *status) look(ctx context.Context, z *zone) error {
	if s.Operation == "" {
		return nil
	}
	o := &operation{}
	if _, err := z.call(ctx, http.MethodGet, "/operations/"+s.Operation, nil, o); err != nil {
		return err
	}
	switch o.State {
	case "running":
		return nil
	case "failed":
		s.Operation = "" // and the next call starts another one
		return fmt.Errorf("the zone could not carry out a change: %s", o.Message)
	default: // done, canceled or forgotten
		s.Operation = ""
		return nil
	}
}

// response saves the provider status, also beside an error, and has the job wait for the operation at work.
func (s *status) response() *sdk.Response {
	res := &sdk.Response{ProviderStatus: s}
	if s.Operation != "" {
		res.InProgress = &sdk.InProgress{WaitingFor: "operation " + s.Operation + " of the zone", PollAfter: poll}
	}
	return res
}

// Diff compares the record with that of the zone.
func (d deployer) Diff(ctx context.Context, req *sdk.Request) (*sdk.DiffResponse, error) {
	wanted, err := configs.Read(req, true)
	if err != nil {
		return nil, err
	}
	z, s, _, err := d.begin(req)
	if err != nil {
		return nil, err
	}
	is, change := &published{}, sdk.Change{Object: "record " + wanted.Name, Action: sdk.ActionCreate}
	found, err := z.call(ctx, http.MethodGet, "/records/"+s.ID, nil, is)
	if err != nil || reflect.DeepEqual(is.record, *wanted) {
		return nil, err
	}
	change.After, _ = json.Marshal(wanted) // texts and numbers can be marshalled
	if found {
		change.Action = sdk.ActionUpdate
		change.Before, _ = json.Marshal(is.record)
	}
	return &sdk.DiffResponse{Changes: []sdk.Change{change}}, nil
}

// Validate finds the problems of a configuration before the first call of a job, and for `pergola items validate`.
func (d deployer) Validate(_ context.Context, req *sdk.Request) (*sdk.ValidateResponse, error) {
	_, err := configs.Read(req, true)
	return nil, err
}

// Hooks have items with a schedule reconciled from time to time, which repairs changes of others.
func (d deployer) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHookSetup(
		continuousreconcile.Setup(continuousreconcile.FromSpec(configs.ScheduleOf)))
}

func newDeployer() deployer { return deployer{http: &http.Client{Timeout: 20 * time.Second}} }

// options describe the plugin. Keep the name: it is part of the names of locks.
func options() []sdk.Option {
	return []sdk.Option{sdk.Name("dns"), sdk.Version("0.1.0"), sdk.Types(itemType), sdk.ScheduleInConfig()}
}

func main() { sdk.Serve(newDeployer(), options()...) }
