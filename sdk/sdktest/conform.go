package sdktest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// unknownField is added to a provider configuration that must then be refused.
	unknownField = "sdktestUnknownField"
	// interruptAfter is when Conform cuts a call short in which the deployer has said nothing yet.
	interruptAfter = 200 * time.Millisecond
)

// Case is a valid deploy item that Conform deploys and deletes again.
type Case struct {
	// Name of the case in messages.
	Name string
	// Call to carry out. Its item has a provider configuration and no provider status. OnSave, OnMessage and Stop are not
	// used.
	Call Call
	// Timeout of each job; zero for one minute.
	Timeout time.Duration
}

// Conform checks the rules of the package comment, for each case in turn, and reports each broken rule by its name. It
// deploys the item and deletes it again.
func Conform(t testing.TB, plugin *Plugin, cases ...Case) {
	t.Helper()
	plugin.checkInfo(t)
	for _, c := range cases {
		if c.Call.DeployItem == nil || c.Call.DeployItem.Spec.Config == nil {
			t.Fatalf("sdktest: case %q needs a deploy item with a provider configuration", c.Name)
		}
		if c.Timeout == 0 {
			c.Timeout = time.Minute
		}
		c.Call.OnSave, c.Call.OnMessage, c.Call.Stop = nil, nil, nil
		(&conformance{t: t, plugin: plugin, c: c}).run()
	}
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (p *Plugin) checkInfo(t testing.TB) {
	t.Helper()
	var broken violations
	defer func() { broken.report(t, "GetInfo") }()
	ctx, cancel := context.WithTimeout(t.Context(), answerWithin)
	defer cancel()
	info, err := p.info(ctx)
	if err != nil {
		broken.add(RuleInfoComplete, "no answer: %v", err)
		return
	}
	if !dnsLabel.MatchString(info.Name) {
		broken.add(RuleInfoComplete, "the name %q is not a DNS label", info.Name)
	}
	if info.Version == "" {
		broken.add(RuleInfoComplete, "the version is empty")
	}
	if len(info.Types) == 0 {
		broken.add(RuleInfoComplete, "no deploy item type is named")
	}
	for i, itemType := range info.Types {
		if itemType == "" {
			broken.add(RuleInfoComplete, "deploy item type %d is empty", i)
		}
		if slices.Contains(info.Types[:i], itemType) {
			broken.add(RuleInfoComplete, "deploy item type %q is named twice", itemType)
		}
	}
}

// conformance is the check of one case.
type conformance struct {
	t      testing.TB
	plugin *Plugin
	c      Case
}

func (c *conformance) run() {
	c.t.Helper()
	c.refuses(RuleConfigRequired, "spec.config", nil)
	c.refuses(RuleConfigStrict, unknownField, withUnknownField(c.t, c.c.Call.DeployItem.Spec.Config))

	status := c.interrupt()
	result := c.job("Reconcile", c.plugin.reconcile(), c.c.Call.with(status))
	if !c.expectSuccess(RuleReconcileSucceeds, "Reconcile", result) {
		return
	}
	result = c.job("Reconcile after success", c.plugin.reconcile(), c.c.Call.with(result.ProviderStatus))
	c.expectSuccess(RuleReconcileAgain, "Reconcile after success", result)

	deletion := c.c.Call.with(result.ProviderStatus)
	now := metav1.Now()
	deletion.DeployItem.DeletionTimestamp = &now
	result = c.job("Delete", c.plugin.delete(), deletion)
	if !c.expectSuccess(RuleDeleteSucceeds, "Delete", result) {
		return
	}
	result = c.job("Delete after Delete", c.plugin.delete(), deletion.with(result.ProviderStatus))
	c.expectSuccess(RuleDeleteAgain, "Delete after Delete", result)
}

// refuses checks that an item with this provider configuration fails, with a message that names what is wrong.
func (c *conformance) refuses(rule Rule, names string, config *runtime.RawExtension) {
	c.t.Helper()
	const name = "Reconcile with a wrong provider configuration"
	ctx, cancel := context.WithTimeout(c.t.Context(), c.c.Timeout)
	defer cancel()
	call := c.c.Call.with(nil)
	call.DeployItem.Spec.Config = config
	result := c.once(name, c.plugin.reconcile())(ctx, call)
	if result.Failed == nil {
		reportBroken(c.t, c.where(name), rule, "expected a failure, but found: %s", result)
		return
	}
	if !slices.Contains(result.Failed.Codes(), v1alpha1.ErrorConfigurationProblem) {
		reportBroken(c.t, c.where(name), rule, "expected code %s, but found: %s", v1alpha1.ErrorConfigurationProblem, result)
	}
	if !strings.Contains(result.Failed.Error(), names) {
		reportBroken(c.t, c.where(name), rule, "expected a message that names %s, but found: %s", names, result)
	}
}

// interrupt cancels a call once the deployer has said something, or after a moment, and returns the provider status that the
// item then has. A call that does not end shows where the next one hangs, or at the end of the test.
func (c *conformance) interrupt() json.RawMessage {
	c.t.Helper()
	const name = "Reconcile, cut short"
	ctx, cancel := context.WithTimeout(c.t.Context(), interruptAfter)
	defer cancel()
	call := c.c.Call.with(nil)
	call.OnMessage = func(Message) { cancel() }
	result := c.once(name, c.plugin.reconcile())(ctx, call)

	ctx, cancel = context.WithTimeout(c.t.Context(), answerWithin)
	defer cancel()
	if _, err := c.plugin.info(ctx); err != nil {
		reportBroken(c.t, c.where(name), RuleCallEnds, "the plugin does not answer any more after a call was cancelled: %v", err)
	}
	return result.ProviderStatus
}

// job repeats an operation until it is done.
func (c *conformance) job(name string, open opener, call Call) *Result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), c.c.Timeout)
	defer cancel()
	return untilDone(ctx, c.once(name, open), call)
}

// once carries out one call of an operation.
func (c *conformance) once(name string, open opener) func(context.Context, Call) *Result {
	return func(ctx context.Context, call Call) *Result {
		c.t.Helper()
		result, broken := converse(ctx, open, &call)
		broken.report(c.t, c.where(name))
		return result
	}
}

func (c *conformance) expectSuccess(rule Rule, name string, result *Result) bool {
	c.t.Helper()
	if result.Succeeded == nil {
		reportBroken(c.t, c.where(name), rule, "expected success within %s, but found: %s", c.c.Timeout, result)
	}
	return result.Succeeded != nil
}

func (c *conformance) where(operation string) string {
	return fmt.Sprintf("case %q: %s", c.c.Name, operation)
}

// withUnknownField returns a copy of a provider configuration with a field that no deployer knows.
func withUnknownField(t testing.TB, config *runtime.RawExtension) *runtime.RawExtension {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(config.Raw, &fields); err != nil {
		t.Fatalf("sdktest: the provider configuration of a case must be a JSON object: %v", err)
	}
	fields[unknownField] = json.RawMessage("true")
	document, err := json.Marshal(fields)
	if err != nil {
		t.Fatalf("sdktest: marshal provider configuration: %v", err)
	}
	return &runtime.RawExtension{Raw: document}
}
