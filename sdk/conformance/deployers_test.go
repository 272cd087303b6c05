package conformance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Rule (plugin-authors.md#4-test-it, TestBadDeployers): `sdktest.Conform` and `pergola plugins verify` name the rule
// that a deployer breaks.
func TestBadDeployers(t *testing.T) {
	t.Parallel()
	for name := range badDeployers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bad := badDeployers()[name]
			report := bad.deployer.judge(t)
			if !slices.ContainsFunc(report.Broken(), func(f Finding) bool { return f.Rule == bad.rule }) {
				t.Errorf("expected that rule %s is broken, but found %v", bad.rule, report.Broken())
			}
			t.Logf("found %v", report.Broken())
		})
	}
}

// sometimes returns an error of a busy API for each first call of a pair.
func sometimes() func() error {
	var calls atomic.Int32
	return func() error {
		if calls.Add(1)%2 == 1 {
			return errTired
		}
		return nil
	}
}

// Good deployers, the first one with all capabilities.
func goodDeployers() map[string]*shelf {
	busy, busyDiff, busyHealth, order := sometimes(), sometimes(), sometimes(), sometimes()
	turn := func() bool { return order() != nil }
	return map[string]*shelf{
		"has all capabilities": {options: []sdk.Option{
			sdk.ProviderConfigSchema(shelfType, []byte(`{"type":"object"}`)), sdk.HookTargets(),
			sdk.Metrics(gatherer(func() ([]*dto.MetricFamily, error) { return nil, nil })),
		}},
		"wakes items of others on a shared shelf": {watch: func(ctx context.Context, req *sdk.WatchRequest) error {
			req.Wake("library", "stranger")
			<-ctx.Done()
			return nil
		}},
		"has holdings in any order": {holdings: func(d *shelf) []sdk.Holding {
			d.mu.Lock()
			defer d.mu.Unlock()
			var held []sdk.Holding
			for _, h := range d.books {
				again := h
				again.JobID = "job-0"
				if held = []sdk.Holding{h, again}; turn() {
					slices.Reverse(held)
				}
			}
			return held
		}},
		"has an API that is busy at times": {
			reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				if _, _, err := read(req); err != nil {
					return nil, err
				}
				if err := busy(); err != nil {
					return nil, err
				}
				return deploy(ctx, d, req)
			},
			delete: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				if err := busy(); err != nil {
					return nil, err
				}
				return remove(ctx, d, req)
			},
			diff: func(d *shelf, req *request) (*sdk.DiffResponse, error) {
				if err := busyDiff(); err != nil {
					return nil, err
				}
				return preview(d, req)
			},
			health: func(ctx context.Context, d *shelf, req *request) (*response, error) {
				if err := busyHealth(); err != nil {
					return nil, err
				}
				return healthyBook(ctx, d, req)
			},
		},
	}
}

// Rule (plugin-authors.md#4-test-it, TestGoodDeployers): `sdktest.Conform` and `pergola plugins verify` try an error
// that does not end a job again until its time is up.
func TestGoodDeployers(t *testing.T) {
	t.Parallel()
	for name, good := range goodDeployers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if report := good.judge(t); len(report.Broken()) > 0 {
				t.Errorf("found %v", report.Broken())
			}
		})
	}
}

// Rule (plugin-authors.md#4-test-it): `sdktest.Conform` and `pergola plugins verify` delete the item after a
// failure.
func TestNothingIsLeftOfAFailedDeployment(t *testing.T) {
	t.Parallel()
	d := &shelf{timeout: patience, reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
		_, err := deploy(ctx, d, req)
		return nil, cmp.Or(err, errTired)
	}}
	report := d.judge(t)
	broken := report.Broken()
	if len(broken) != 1 || broken[0].Rule != RuleReconcile || !strings.Contains(broken[0].Messages[0], errTired.Error()) {
		t.Errorf("expected that Reconcile fails with %q, but found %v", errTired, broken)
	}
	if d.has("default/item") {
		t.Error("the book is still there")
	}
}

// Rule (plugin-authors.md#4-test-it): `sdktest.Conform` and `pergola plugins verify` delete the item when they are
// interrupted.
func TestNothingIsLeftOfAnInterruptedCheck(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	d := &shelf{timeout: patience, reconcile: func(ctx context.Context, d *shelf, req *request) (*response, error) {
		response, err := deploy(ctx, d, req)
		if d.has("default/item") {
			interrupt()
		}
		return response, err
	}}
	if _, err := d.check(ctx, t); !errors.Is(err, context.Canceled) {
		t.Errorf("expected that the check is canceled, but found %v", err)
	}
	if d.has("default/item") {
		t.Error("the book is still there")
	}
}

// A job has the time that a host gives it.
func TestTimeoutOfAJob(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		set, plugin, want time.Duration
		item              v1alpha1.Duration
	}{
		{want: time.Minute},
		{plugin: time.Hour, want: time.Hour},
		{plugin: time.Hour, item: "20m", want: 20 * time.Minute},
		{item: v1alpha1.NoDuration, want: time.Minute},
		{set: time.Second, plugin: time.Hour, item: "20m", want: time.Second},
	} {
		c := fakeCase()
		c.Timeout, c.Call.DeployItem.Spec.Timeout = test.set, test.item
		info := &deployerv1.GetInfoResponse{}
		if test.plugin > 0 {
			info.Timeouts = map[string]*durationpb.Duration{fakeType: durationpb.New(test.plugin)}
		}
		cases, err := (&Options{Cases: []Case{c}}).prepared(info)
		if err != nil || cases[0].Timeout != test.want {
			t.Errorf("%+v: found %v, error %v", test, cases, err)
		}
	}
}

// A good deployer with all capabilities breaks none of the rules, and each rule without a process is checked.
func TestGoodDeployer(t *testing.T) {
	t.Parallel()
	report := goodDeployers()["has all capabilities"].judge(t)
	for _, f := range report.Findings {
		process := []Rule{RuleHandshake, RuleMutualTLS, RuleSignalsIgnored, RuleEndsWhenTold, RuleEndsWithHost, RuleConfigure}
		if f.Verdict != Passed && !slices.Contains(process, f.Rule) {
			t.Errorf("%s: %s %q", f.Rule, f.Verdict, f.Messages)
		}
	}
}
