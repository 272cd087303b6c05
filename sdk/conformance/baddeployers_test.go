package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/strange"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

type (
	item   = v1alpha1.DeployItem
	target = v1alpha1.Target
)

// patience is the time of a job of a deployer that fails by its time alone. The other calls are answered within it,
// also on a busy machine.
const patience = 4 * time.Second

// fails returns a method that fails for an item with a good configuration and Target.
func fails(err func(token string) error) method {
	return func(ctx context.Context, d *shelf, req *request) (*response, error) {
		res, deployErr := deploy(ctx, d, req)
		if _, token, readErr := read(req); readErr == nil && res.InProgress != nil {
			return nil, err(token)
		}
		return res, deployErr
	}
}

// says returns a method that deploys, and says something with the token before.
func says(say func(req *request, token string)) method {
	return func(ctx context.Context, d *shelf, req *request) (*response, error) {
		if _, token, err := read(req); err == nil {
			say(req, token)
		}
		return deploy(ctx, d, req)
	}
}

// answers returns a method that deploys, and changes the response.
func answersWith(change func(res *response, token string)) method {
	return func(ctx context.Context, d *shelf, req *request) (*response, error) {
		res, err := deploy(ctx, d, req)
		if err == nil {
			change(res, shelfToken)
		}
		return res, err
	}
}

// gatherer has the metrics of a deployer.
type gatherer func() ([]*dto.MetricFamily, error)

func (g gatherer) Gather() ([]*dto.MetricFamily, error) { return g() }

// fall panics.
func fall() error { panic("the shelf has fallen") } //nolint:forbidigo // what is tested

func panics(context.Context, *shelf, *request) (*response, error) { return nil, fall() }

func tired(context.Context, *shelf, *request) (*response, error) { return nil, errTired }

func forever(context.Context, *shelf, *request) (*response, error) {
	return sdk.WaitFor("the end of time", time.Millisecond), nil
}

// badDeployers are wrong in one way each. They are made with the sdk, as those of most authors.
func badDeployers() map[string]badDeployer {
	const schema = `{"type":"object","properties":{"title":{"type":"string"}}}`
	return map[string]badDeployer{
		// Answers without what users need.
		"waits for nothing": {RuleResult, &shelf{reconcile: answersWith(func(res *response, _ string) {
			if res.InProgress != nil {
				res.InProgress.WaitingFor = ""
			}
		})}},
		"asks to be called in the past": {RuleResult, &shelf{reconcile: answersWith(func(res *response, _ string) {
			if res.InProgress != nil {
				res.InProgress.PollAfter = -time.Second
			}
		})}},
		"fails without a text": {RuleResult, &shelf{reconcile: fails(func(string) error { return errors.New("") })}},
		"has a reason with a space": {RuleResult, &shelf{reconcile: fails(func(string) error {
			return &sdk.Error{Reason: "shelf tired", Err: errTired}
		})}},
		"has a code that does not exist": {RuleResult, &shelf{reconcile: fails(func(string) error {
			return &sdk.Error{Codes: []v1alpha1.ErrorCode{"ERR_SHELF"}, Reason: "Tired", Err: errTired}
		})}},
		"Diff fails with a reason of two words": {RuleResult, &shelf{
			diff: func(d *shelf, req *request) (*sdk.DiffResponse, error) {
				if _, _, err := read(req); err != nil {
					return nil, &sdk.Error{Reason: "not good", Err: errTired}
				}
				return preview(d, req)
			},
		}},

		// Panics.
		"Reconcile panics":      {RulePanics, &shelf{reconcile: panics}},
		"Delete panics":         {RulePanics, &shelf{delete: panics}},
		"Abort panics":          {RulePanics, &shelf{abort: panics}},
		"ForceReconcile panics": {RulePanics, &shelf{force: panics}},
		"CheckHealth panics":    {RulePanics, &shelf{health: panics}},
		"Diff panics": {RulePanics, &shelf{
			diff: func(*shelf, *request) (*sdk.DiffResponse, error) { return nil, fall() },
		}},
		"Render panics": {RulePanics, &shelf{
			render: func(*shelf, *request) (*sdk.RenderResponse, error) { return nil, fall() },
		}},
		"Validate panics": {RulePanics, &shelf{
			validate: func(*shelf, []byte) ([]sdk.Problem, error) { return nil, fall() },
		}},
		"a hook panics": {RulePanics, &shelf{
			hook: func(context.Context, *item, *target, hook.Type) (*hook.Result, error) { return nil, fall() },
		}},

		// Calls that must change nothing.
		"Diff deploys": {RuleDiff, &shelf{diff: func(d *shelf, req *request) (*sdk.DiffResponse, error) {
			res, err := preview(d, req)
			if err == nil {
				d.put(req)
			}
			return res, err
		}}},
		"Render deploys": {RuleRender, &shelf{render: func(d *shelf, req *request) (*sdk.RenderResponse, error) {
			res, err := rendered(d, req)
			if err == nil {
				d.put(req)
			}
			return res, err
		}}},
		"Validate deploys": {RuleValidate, &shelf{validate: func(d *shelf, config []byte) ([]sdk.Problem, error) {
			d.put(&request{DeployItem: DeployItem(shelfType, nil)})
			return problems(d, config)
		}}},
		"CheckHealth removes": {RuleCheckHealth, &shelf{
			health: func(_ context.Context, d *shelf, req *request) (*response, error) {
				d.take(nameOf(req))
				return nil, nil
			},
		}},
		"CheckHealth saves": {RuleCheckHealth, &shelf{
			health: func(ctx context.Context, _ *shelf, req *request) (*response, error) {
				return nil, req.SaveProviderStatus(ctx, bookStatus{APIVersion: shelfAPI, Kind: "Status", Book: nameOf(req)})
			},
		}},
		"CheckHealth fails": {RuleCheckHealth, &shelf{timeout: patience, health: tired}},
		"Diff shows creations for ever": {RuleDiff, &shelf{diff: func(_ *shelf, req *request) (*sdk.DiffResponse, error) {
			return preview(&shelf{}, req)
		}}},
		"Diff has an action of its own": {RuleDiff, &shelf{diff: func(d *shelf, req *request) (*sdk.DiffResponse, error) {
			res, err := preview(d, req)
			for i := range res.Changes {
				res.Changes[i].Action = "shelve"
			}
			return res, err
		}}},
		"Render renders two of a name": {RuleRender, &shelf{
			render: func(d *shelf, req *request) (*sdk.RenderResponse, error) {
				res, err := rendered(d, req)
				res.Children = append(res.Children, res.Children...)
				return res, err
			},
		}},

		// Documents.
		"takes unknown fields": {RuleConfigStrict, &shelf{
			reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				if req.DeployItem.Spec.Config != nil {
					req.DeployItem.Spec.Config.Raw = json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Config","title":"A"}`)
				}
				return deploy(ctx, d, req)
			},
		}},
		"Validate takes unknown fields": {RuleValidate, &shelf{
			validate: func(*shelf, []byte) ([]sdk.Problem, error) { return nil, nil },
		}},
		"Validate refuses all": {RuleValidate, &shelf{validate: func(*shelf, []byte) ([]sdk.Problem, error) {
			return []sdk.Problem{{Field: strange.Field, Message: "no"}}, nil
		}}},
		"Validate has no text": {RuleResult, &shelf{validate: func(d *shelf, config []byte) ([]sdk.Problem, error) {
			found, err := problems(d, config)
			for i := range found {
				found[i].Message = ""
			}
			return found, err
		}}},
		"has a schema of no type": {RuleSchemas, &shelf{options: []sdk.Option{
			sdk.ProviderConfigSchema(shelfType, []byte(`{"type":"strng"}`)),
		}}},
		"has a schema of another kind": {RuleSchemas, &shelf{options: []sdk.Option{
			sdk.ProviderConfigSchema(shelfType, []byte(`{"type":"object","required":["author"]}`)),
		}}},
		"has a schema beside the schema": {RuleSchemas, &shelf{options: []sdk.Option{
			sdk.ProviderConfigSchema(shelfType, []byte(schema)), sdk.ConfigSchema([]byte(`{"$ref":"https://example.org/s"}`)),
		}}},
		"goes on without a save": {RuleSaveRefused, &shelf{
			reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				if _, _, err := read(req); err != nil {
					return nil, err
				}
				_ = req.SaveProviderStatus(ctx, bookStatus{APIVersion: shelfAPI, Kind: "Status", Book: nameOf(req)})
				d.put(req)
				return nil, nil
			},
		}},
		"saves a status without a kind": {RuleReconcile, &shelf{reconcile: answersWith(func(res *response, _ string) {
			res.ProviderStatus = map[string]any{"apiVersion": shelfAPI}
		})}},
		"sets a condition of the host": {RuleReconcile, &shelf{reconcile: answersWith(func(res *response, _ string) {
			res.Conditions = []sdk.Condition{{Type: "Ready", Status: v1alpha1.ConditionTrue, Reason: "Stands"}}
		})}},
		"exports a channel": {RuleReconcile, &shelf{reconcile: answersWith(func(res *response, _ string) {
			res.Exports = map[string]any{"title": make(chan int)}
		})}},

		// Credentials of the Target.
		"the token is in an error": {RuleCredentials, &shelf{reconcile: fails(func(token string) error {
			return fmt.Errorf("GET /books?token=%s: 500", token)
		})}},
		"the token is in an event": {RuleCredentials, &shelf{reconcile: says(func(req *request, token string) {
			req.Event("LoggedIn", "with "+token)
		})}},
		"the token is in the progress": {RuleCredentials, &shelf{reconcile: says(func(req *request, token string) {
			req.Progress("LogIn", "with "+token)
		})}},
		"the token is in the log": {RuleCredentials, &shelf{reconcile: says(func(req *request, token string) {
			req.Log.Info("logged in", "token", token)
		})}},
		"the token is in a condition": {RuleCredentials, &shelf{reconcile: answersWith(func(res *response, token string) {
			res.Conditions = []sdk.Condition{{Type: "LoggedIn", Status: v1alpha1.ConditionTrue, Reason: "By", Message: token}}
		})}},
		"the token is in the exports": {RuleCredentials, &shelf{reconcile: answersWith(func(res *response, token string) {
			res.Exports = map[string]any{"token": token}
		})}},
		"the token is in the provider status": {RuleCredentials, &shelf{
			reconcile: answersWith(func(res *response, token string) {
				res.ProviderStatus = bookStatus{APIVersion: shelfAPI, Kind: "Status", Book: "default/item", Note: token}
			}),
		}},
		"the token is in a wait": {RuleCredentials, &shelf{reconcile: answersWith(func(res *response, token string) {
			if res.InProgress != nil {
				res.InProgress.WaitingFor += " with " + token
			}
		})}},
		"the token is in Diff": {RuleCredentials, &shelf{diff: func(d *shelf, req *request) (*sdk.DiffResponse, error) {
			res, err := preview(d, req)
			for i := 0; err == nil && res != nil && i < len(res.Changes); i++ {
				res.Changes[i].Note = string(req.Target.Content)
			}
			return res, err
		}}},
		"the token is in Render": {RuleCredentials, &shelf{
			render: func(d *shelf, req *request) (*sdk.RenderResponse, error) {
				res, err := rendered(d, req)
				if err == nil {
					res.Children[0].Object = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Book","token":%q}`, shelfToken)
				}
				return res, err
			},
		}},
		"a Target that it cannot read is quoted": {RuleCredentials, &shelf{
			reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				res, err := deploy(ctx, d, req)
				if err != nil && req.Target != nil {
					err = fmt.Errorf("read the Target %s: %w", req.Target.Content, err)
				}
				return res, err
			},
		}},

		// Jobs.
		"never succeeds": {RuleReconcile, &shelf{
			timeout: patience,
			reconcile: func(_ context.Context, _ *shelf, req *request) (*response, error) {
				_, _, err := read(req)
				return sdk.WaitFor("the end of time", time.Millisecond), err
			},
		}},
		"fails once it has succeeded": {RuleReconcile, &shelf{
			timeout: patience,
			reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				status := bookStatus{}
				if _, err := req.DecodeProviderStatus(&status, "Status", shelfAPI); err == nil && status.Note != "" {
					return nil, errors.New("the book is there already")
				}
				res, err := deploy(ctx, d, req)
				if err == nil && res.InProgress == nil {
					res.ProviderStatus = bookStatus{APIVersion: shelfAPI, Kind: "Status", Book: nameOf(req), Note: "done"}
				}
				return res, err
			},
		}},
		"its force never ends": {RuleForce, &shelf{
			timeout: patience,
			force:   forever, reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				if req.Forced {
					return forever(ctx, d, req)
				}
				return deploy(ctx, d, req)
			},
		}},
		"its force fails":      {RuleForce, &shelf{timeout: patience, force: tired}},
		"its abort never ends": {RuleAbort, &shelf{timeout: patience, abort: forever}},
		"its abort keeps the next job from the item": {RuleAbort, &shelf{
			abort: func(_ context.Context, _ *shelf, req *request) (*response, error) {
				return &response{ProviderStatus: bookStatus{APIVersion: shelfAPI, Kind: "Aborted", Book: nameOf(req)}}, nil
			},
		}},
		"its deletion forgets": {RuleDelete, &shelf{delete: func(context.Context, *shelf, *request) (*response, error) {
			return nil, nil
		}}},
		"its deletion needs the book": {RuleDelete, &shelf{
			timeout: patience,
			delete: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				if !d.has(nameOf(req)) {
					return nil, errors.New("404")
				}
				return remove(ctx, d, req)
			},
		}},
		"its deletion never ends": {RuleDelete, &shelf{timeout: patience, delete: forever}},
		"it keeps something of deleted items": {RuleDelete, &shelf{holdings: func(*shelf) []sdk.Holding {
			return []sdk.Holding{{Namespace: "default", Name: "item", UID: DeployItem(shelfType, nil).UID}}
		}}},
		"its holdings are of no item": {RuleHoldings, &shelf{holdings: func(*shelf) []sdk.Holding {
			return []sdk.Holding{{Namespace: "default", Name: "item"}}
		}}},

		// Wake-ups and hooks.
		"it wakes a name without a namespace": {RuleWatch, &shelf{
			watch: func(ctx context.Context, req *sdk.WatchRequest) error {
				req.Wake("", "item")
				<-ctx.Done()
				return nil
			},
		}},
		"its Watch returns at once": {RuleWatch, &shelf{
			watch: func(context.Context, *sdk.WatchRequest) error { return nil },
		}},
		"its Watch panics": {RuleWatch, &shelf{
			watch: func(context.Context, *sdk.WatchRequest) error { return fall() },
		}},
		"Collect panics": {RulePanics, &shelf{collect: fall}},
		"Metrics panics": {RuleMetrics, &shelf{options: []sdk.Option{sdk.Metrics(gatherer(
			func() ([]*dto.MetricFamily, error) { return nil, fall() },
		))}}},
		"the token is in the metrics": {RuleCredentials, &shelf{options: []sdk.Option{sdk.Metrics(gatherer(
			func() ([]*dto.MetricFamily, error) {
				return []*dto.MetricFamily{{Name: new("books"), Help: new(shelfToken), Metric: []*dto.Metric{
					{Untyped: &dto.Untyped{Value: new(1.0)}},
				}, Type: dto.MetricType_UNTYPED.Enum()}}, nil
			},
		))}}},
		"a hook panics with the content of a Target": {RulePanics, &shelf{
			options: []sdk.Option{sdk.HookTargets()},
			hook: func(ctx context.Context, _ *item, _ *target, _ hook.Type) (*hook.Result, error) {
				if found, err := sdk.HookTarget(ctx); err != nil || found != nil {
					return nil, fall()
				}
				return nil, nil
			},
		}},
		"a hook repeats the content of a Target": {RuleCredentials, &shelf{
			options: []sdk.Option{sdk.HookTargets()},
			hook: func(ctx context.Context, _ *item, _ *target, _ hook.Type) (*hook.Result, error) {
				if found, err := sdk.HookTarget(ctx); err != nil || found != nil {
					return nil, fmt.Errorf("log in with %s: refused", found.Content)
				}
				return nil, nil
			},
		}},
		"a hook asks for the past": {RuleHooks, &shelf{
			hook: func(context.Context, *item, *target, hook.Type) (*hook.Result, error) {
				return &hook.Result{RequeueAfter: -time.Hour}, nil
			},
		}},
		"a hook fails without a text": {RuleHooks, &shelf{
			hook: func(context.Context, *item, *target, hook.Type) (*hook.Result, error) { return nil, errors.New("") },
		}},
	}
}

// badDeployer is a deployer and the rule that catches it.
type badDeployer struct {
	rule     Rule
	deployer *shelf
}
