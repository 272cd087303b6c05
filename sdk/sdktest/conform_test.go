package sdktest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

func TestConformAcceptsConformingDeployers(t *testing.T) {
	t.Parallel()
	t.Run("in process", func(t *testing.T) {
		t.Parallel()
		Conform(t, New(t, greeter{}, greeterOptions()...), Case{Name: "greets", Call: greeterCall()})
	})
	t.Run("binary", func(t *testing.T) {
		t.Parallel()
		binary, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		Conform(t, Start(t, binary, helperEnv+"=plugin"), Case{Name: "greets", Call: greeterCall()})
	})
}

// The rules are those of package conformance, whose tests break each; here it is seen that a broken one fails the test.
func TestConformReportsBrokenRules(t *testing.T) {
	t.Parallel()
	deployer := greeter{delete: func(context.Context, *sdk.Request) (*sdk.Response, error) {
		return nil, errors.New("cannot delete")
	}}
	r := record(t, func(t testing.TB) {
		Conform(t, New(t, deployer, greeterOptions()...), Case{Name: "stays", Call: greeterCall(), Timeout: 10 * time.Second})
	})
	if diff := cmp.Diff([]conformance.Rule{conformance.RuleDelete}, r.rules()); diff != "" {
		t.Errorf("broken rules (-want +got):\n%s\nreported:\n%s", diff, strings.Join(r.errors, "\n"))
	}
}

// A call that ignores its cancellation is seen at the end of the test that made it.
func TestCallThatDoesNotEndIsReported(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	deployer := greeter{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		req.Progress("block", "ignoring everything")
		<-release
		return nil, nil
	}}
	r := record(t, func(t testing.TB) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		call := greeterCall()
		call.OnMessage = func(Message) { cancel() }
		serve(t, 50*time.Millisecond, ofDeployer(deployer, greeterOptions())).Reconcile(ctx, call)
	})
	if diff := cmp.Diff([]conformance.Rule{conformance.RuleCallEnds}, r.rules()); diff != "" {
		t.Errorf("broken rules (-want +got):\n%s", diff)
	}
}
