package sdktest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// helperEnv makes the test binary a plugin instead of a test.
const helperEnv = "SDKTEST_HELPER"

func TestMain(m *testing.M) {
	switch os.Getenv(helperEnv) {
	case "":
		os.Exit(m.Run())
	case "plugin":
		sdk.Serve(newGreeter(), sdk.Name("greeter"), sdk.Version("1.2.3"), sdk.Types("example.org/greeter"))
	case "no-plugin":
		_, _ = fmt.Fprintln(os.Stdout, "this program is something else")
	}
}

// recorder is a testing.TB that keeps what is reported to it.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	errors   []string
	fatal    bool
	cleanups []func()
}

// record runs f with a recorder as its test, cleanup functions included, and returns what was reported.
func record(t *testing.T, f func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() { // so that Fatalf can end it
		defer close(done)
		defer func() {
			for _, cleanup := range slices.Backward(r.cleanups) {
				cleanup()
			}
		}()
		f(r)
	}()
	<-done
	return r
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	r.fatal = true
	runtime.Goexit()
}

// rules returns the rules that were reported as broken, each once.
func (r *recorder) rules() []conformance.Rule {
	found := map[conformance.Rule]bool{}
	for _, message := range r.errors {
		_, after, ok := strings.Cut(message, "sdktest: rule ")
		if !ok {
			continue
		}
		rule, _, _ := strings.Cut(after, " is broken: ")
		found[conformance.Rule(rule)] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// greeter is a deployer that keeps the rules. It waits once while it deploys and once while it deletes.
type greeter struct {
	mu        sync.Mutex
	greetings map[string]string
	leaving   map[string]bool
}

type greeterConfig struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Greeting   string `json:"greeting"`
}

type greeterStatus struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Greeted    string `json:"greeted"`
}

func newGreeter() *greeter {
	return &greeter{greetings: map[string]string{}, leaving: map[string]bool{}}
}

func statusOf(greeted string) greeterStatus {
	return greeterStatus{APIVersion: "example.org/v1", Kind: "GreeterStatus", Greeted: greeted}
}

func (g *greeter) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	var config greeterConfig
	if err := req.DecodeConfig(&config); err != nil {
		return nil, err
	}
	name := req.DeployItem.Name
	if !g.greets(name) {
		req.Progress("greet", "clearing the throat")
		if err := req.SaveProviderStatus(ctx, statusOf(name)); err != nil {
			return nil, err
		}
		g.mu.Lock()
		g.greetings[name] = config.Greeting
		g.mu.Unlock()
		req.Event("Greeted", "said "+config.Greeting)
		return sdk.WaitFor("an answer to the greeting", 1), nil
	}
	return &sdk.Response{Exports: map[string]any{"greeting": config.Greeting}}, nil
}

func (g *greeter) Delete(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := req.DeployItem.Name
	if g.greetings[name] == "" {
		return nil, nil
	}
	if !g.leaving[name] {
		g.leaving[name] = true
		return sdk.WaitFor("the guests to leave", 0), nil
	}
	delete(g.greetings, name)
	delete(g.leaving, name)
	return &sdk.Response{ProviderStatus: statusOf("")}, nil
}

func (g *greeter) greets(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.greetings[name] != ""
}

// variant is the greeter with some methods replaced; nil leaves the greeter's.
type variant struct {
	*greeter

	reconcile func(ctx context.Context, req *sdk.Request) (*sdk.Response, error)
	delete    func(ctx context.Context, req *sdk.Request) (*sdk.Response, error)
}

func (v *variant) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if v.reconcile != nil {
		return v.reconcile(ctx, req)
	}
	return v.greeter.Reconcile(ctx, req)
}

func (v *variant) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if v.delete != nil {
		return v.delete(ctx, req)
	}
	return v.greeter.Delete(ctx, req)
}

func greeterOptions() []sdk.Option {
	return []sdk.Option{sdk.Name("greeter"), sdk.Version("1.2.3"), sdk.Types("example.org/greeter")}
}

func greeterCall() Call {
	return Call{DeployItem: DeployItem("example.org/greeter", greeterConfig{
		APIVersion: "example.org/v1", Kind: "GreeterConfiguration", Greeting: "good morning",
	})}
}
