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
		sdk.Serve(greeter{}, greeterOptions()...)
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

type document struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Text       string `json:"text"`
}

// greeter is a deployer that keeps the rules, unless a function replaces a method. It waits once while it deploys and
// once while it deletes.
type greeter struct {
	reconcile, delete func(ctx context.Context, req *sdk.Request) (*sdk.Response, error)
}

func (g greeter) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if g.reconcile != nil {
		return g.reconcile(ctx, req)
	}
	var config, status document
	if err := req.DecodeConfig(&config); err != nil {
		return nil, err
	}
	if found, err := req.DecodeProviderStatus(&status, "GreeterStatus", "example.org/v1"); found || err != nil {
		return &sdk.Response{Exports: map[string]any{"greeting": config.Text}}, err
	}
	req.Progress("greet", "clearing the throat")
	if err := req.SaveProviderStatus(ctx, document{"example.org/v1", "GreeterStatus", req.DeployItem.Name}); err != nil {
		return nil, err
	}
	req.Event("Greeted", "said "+config.Text)
	return sdk.WaitFor("an answer to the greeting", 1), nil
}

func (g greeter) Delete(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if g.delete != nil {
		return g.delete(ctx, req)
	}
	var status document
	if _, err := req.DecodeProviderStatus(&status, "GreeterStatus", "example.org/v1"); err != nil || status.Text == "" {
		return nil, err
	}
	res := sdk.WaitFor("the guests to leave", 0)
	res.ProviderStatus = document{APIVersion: "example.org/v1", Kind: "GreeterStatus"}
	return res, nil
}

func greeterOptions() []sdk.Option {
	return []sdk.Option{sdk.Name("greeter"), sdk.Version("1.2.3"), sdk.Types("example.org/greeter")}
}

func greeterCall() Call {
	return Call{DeployItem: DeployItem("example.org/greeter", document{
		APIVersion: "example.org/v1", Kind: "GreeterConfiguration", Text: "good morning",
	})}
}
