package conformance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/bounds"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

const (
	shelfType  = "example.org/book"
	shelfToken = "s3cr3t-Tok3n-0f-th3-shelf"
	shelfAPI   = "example.org/v1"
)

type (
	request  = sdk.Request
	response = sdk.Response
	method   = func(ctx context.Context, d *shelf, req *request) (*response, error)
)

// bookConfig and bookStatus are the documents of shelf.
type bookConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Title      string `json:"title"`
}

type bookStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Book       string `json:"book"`
	Note       string `json:"note,omitempty"`
}

// shelf is a deployer made with the sdk: it puts books on a shelf with a token, and keeps all rules. A function
// replaces a method.
type shelf struct {
	reconcile, delete, abort, force, health method
	diff                                    func(d *shelf, req *request) (*sdk.DiffResponse, error)
	render                                  func(d *shelf, req *request) (*sdk.RenderResponse, error)
	validate                                func(d *shelf, config []byte) ([]sdk.Problem, error)
	watch                                   func(ctx context.Context, req *sdk.WatchRequest) error
	hook                                    hook.Func
	holdings                                func(d *shelf) []sdk.Holding
	collect                                 func() error
	options                                 []sdk.Option
	// timeout of the jobs, short for a deployer that never ends or never succeeds.
	timeout time.Duration

	mu    sync.Mutex
	books map[string]sdk.Holding
}

// name returns the name of the item's book.
func nameOf(req *request) string { return req.DeployItem.Namespace + "/" + req.DeployItem.Name }

// put puts a book on the shelf, and reports whether it was missing.
func (d *shelf) put(req *request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.books[nameOf(req)]
	if d.books == nil {
		d.books = map[string]sdk.Holding{}
	}
	d.books[nameOf(req)] = sdk.Holding{
		Namespace: req.DeployItem.Namespace, Name: req.DeployItem.Name, UID: req.DeployItem.UID,
	}
	return !there
}

func (d *shelf) take(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.books, name)
}

func (d *shelf) has(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.books[name]
	return there
}

// read reads the configuration and the token.
func read(req *request) (c bookConfig, token string, err error) {
	if err := req.DecodeConfig(&c); err != nil {
		return c, "", err
	}
	content := struct {
		Token string `json:"token"`
	}{}
	if req.Target == nil || json.Unmarshal(req.Target.Content, &content) != nil || content.Token != shelfToken {
		return c, "", sdk.ConfigurationError(sdk.ReasonTargetInvalid, "the Target has no token of the shelf")
	}
	return c, content.Token, nil
}

// deploy is the good way to deploy.
func deploy(ctx context.Context, d *shelf, req *request) (*response, error) {
	c, _, err := read(req)
	if err != nil {
		return nil, err
	}
	status := bookStatus{APIVersion: shelfAPI, Kind: "Status", Book: nameOf(req)}
	if found, err := req.DecodeProviderStatus(&status, "Status", shelfAPI); err != nil {
		return nil, err
	} else if !found {
		if err := req.SaveProviderStatus(ctx, status); err != nil {
			return nil, err
		}
	}
	if d.put(req) {
		return sdk.WaitFor("the book to stand", time.Millisecond), nil
	}
	return &response{Exports: map[string]any{"title": c.Title}}, nil
}

// remove is the good way to delete.
func remove(_ context.Context, d *shelf, req *request) (*response, error) {
	status := bookStatus{}
	if _, err := req.DecodeProviderStatus(&status, "Status", shelfAPI); err != nil {
		return nil, err
	}
	d.take(status.Book)
	return nil, nil
}

// healthy is the good answer to CheckHealth.
func healthyBook(_ context.Context, d *shelf, req *request) (*response, error) {
	if !d.has(nameOf(req)) {
		return sdk.WaitFor("the book is gone", 0), nil
	}
	return nil, nil
}

func preview(d *shelf, req *request) (*sdk.DiffResponse, error) {
	if _, _, err := read(req); err != nil || d.has(nameOf(req)) {
		return nil, err
	}
	return &sdk.DiffResponse{Changes: []sdk.Change{{
		Object: "Book " + nameOf(req), Action: sdk.ActionCreate, After: json.RawMessage(`{}`),
	}}}, nil
}

func rendered(_ *shelf, req *request) (*sdk.RenderResponse, error) {
	_, _, err := read(req)
	return &sdk.RenderResponse{Children: []sdk.Child{
		{Name: "book", Object: json.RawMessage(`{"apiVersion":"v1","kind":"Book"}`)},
	}}, err
}

// problems reads strictly, as Reconcile does.
func problems(_ *shelf, config []byte) ([]sdk.Problem, error) {
	var fields map[string]any
	if err := json.Unmarshal(config, &fields); err != nil {
		return nil, err
	}
	var found []sdk.Problem
	for field := range fields {
		if field != "apiVersion" && field != "kind" && field != "title" {
			found = append(found, sdk.Problem{Field: field, Message: "unknown field"})
		}
	}
	return found, nil
}

func or(replaced, usual method) method {
	if replaced != nil {
		return replaced
	}
	return usual
}

func (d *shelf) Reconcile(ctx context.Context, req *request) (*response, error) {
	return or(d.reconcile, deploy)(ctx, d, req)
}

func (d *shelf) Delete(ctx context.Context, req *request) (*response, error) {
	return or(d.delete, remove)(ctx, d, req)
}

func (d *shelf) Abort(ctx context.Context, req *request) (*response, error) {
	return or(d.abort, func(context.Context, *shelf, *request) (*response, error) { return nil, nil })(ctx, d, req)
}

func (d *shelf) ForceReconcile(ctx context.Context, req *request) (*response, error) {
	return or(d.force, deploy)(ctx, d, req)
}

func (d *shelf) CheckHealth(ctx context.Context, req *request) (*response, error) {
	return or(d.health, healthyBook)(ctx, d, req)
}

func (d *shelf) Diff(_ context.Context, req *request) (*sdk.DiffResponse, error) {
	if d.diff != nil {
		return d.diff(d, req)
	}
	return preview(d, req)
}

func (d *shelf) Render(_ context.Context, req *request) (*sdk.RenderResponse, error) {
	if d.render != nil {
		return d.render(d, req)
	}
	return rendered(d, req)
}

func (d *shelf) Validate(_ context.Context, req *request) (*sdk.ValidateResponse, error) {
	check := problems
	if d.validate != nil {
		check = d.validate
	}
	var config []byte
	if req.DeployItem.Spec.Config != nil {
		config = req.DeployItem.Spec.Config.Raw
	}
	found, err := check(d, config)
	if d.validate == nil && req.DeployItem.Spec.Target == nil {
		found = append(found, sdk.Problem{Field: "spec.target", Message: "this deployer needs a Target"})
	}
	return &sdk.ValidateResponse{Problems: found}, err
}

func (d *shelf) Watch(ctx context.Context, req *sdk.WatchRequest) error {
	if d.watch != nil {
		return d.watch(ctx, req)
	}
	<-ctx.Done()
	return nil
}

func (d *shelf) Hooks() hook.Hooks {
	f := d.hook
	if f == nil {
		f = func(context.Context, *item, *target, hook.Type) (*hook.Result, error) { return nil, nil }
	}
	return hook.Hooks{hook.BeforeReconcile: {f}}
}

func (d *shelf) Holdings(context.Context, *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	if d.holdings != nil {
		return &sdk.HoldingsResponse{Holdings: d.holdings(d)}, nil
	}
	return nil, nil
}

func (d *shelf) Collect(context.Context, *sdk.CollectRequest) error {
	if d.collect != nil {
		return d.collect()
	}
	return nil
}

// judge checks a deployer in this process, with a case.
func (d *shelf) judge(t *testing.T) *Report {
	t.Helper()
	report, err := d.check(t.Context(), t)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// check checks a deployer until ctx ends.
func (d *shelf) check(ctx context.Context, t *testing.T) (*Report, error) {
	t.Helper()
	limits := bounds.Usual()
	limits.Pause, limits.Large = 20*time.Millisecond, 1<<10
	limits.Answer, limits.Probe, limits.End, limits.Silence = time.Minute, time.Minute, time.Minute, time.Minute
	logs := &lateLog{}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	at, done, err := sdk.ServeInProcess(serving, slog.New(slog.NewTextHandler(logs, nil)), d, append([]sdk.Option{
		sdk.Name("shelf"), sdk.Version("1"), sdk.Types(shelfType),
	}, d.options...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		<-done
	}()
	plugin, err := Attach(serving, at.Network()+":"+at.String(), Options{limits: &limits})
	if err != nil {
		t.Fatal(err)
	}
	defer plugin.Close()
	logs.through(plugin)
	item := DeployItem(shelfType, json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Config","title":"A"}`))
	item.Spec.Target = &v1alpha1.ObjectReference{Name: "shelf"}
	return plugin.Check(ctx, Options{KeepConfiguration: true, Cases: []Case{{
		Name: "a book", Timeout: cmp.Or(d.timeout, time.Minute), Call: Call{
			DeployItem: item,
			Target: &sdk.Target{
				Name: "shelf", Type: "example.org/shelf",
				Content: fmt.Appendf(nil, `{"url":"https://shelf.example.org","token":%q}`, shelfToken),
			},
		},
	}}})
}

// lateLog is a log that the plugin of the other side of the connection hears, as package sdktest does it.
type lateLog struct {
	mu sync.Mutex
	to func([]byte) (int, error)
}

func (l *lateLog) through(p *Plugin) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = p.Log(nil).Write
}

func (l *lateLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == nil {
		return len(text), nil
	}
	return l.to(text)
}

var errTired = errors.New("the shelf is tired")
