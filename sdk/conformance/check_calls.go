package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/strange"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/watchdog"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// newProbe returns a call for an item of its own without a provider configuration. The name of the item shows the
// purpose in the plugin's log.
func (e *examination) newProbe(itemType v1alpha1.DeployItemType, purpose string) Call {
	e.probes++
	item := DeployItem(itemType, nil)
	item.Name = fmt.Sprintf("conformance-%s-%d", purpose, e.probes)
	item.UID = types.UID(fmt.Sprintf("00000000-0000-0000-0001-%012d", e.probes))
	return Call{DeployItem: item}
}

// probe makes a call for a probe.
func (e *examination) probe(
	ctx context.Context, where string, open exchange.Opener, call Call, further ...*deployerv1.HostMessage,
) *Result {
	ctx, cancel := context.WithTimeout(ctx, e.limits.Probe)
	defer cancel()
	return e.call(ctx, where, open, call, further...)
}

// reconcile makes a call of Reconcile for a probe, and reports whether it ends with a result.
func (e *examination) reconcile(
	ctx context.Context, rule Rule, where string, call Call, further ...*deployerv1.HostMessage,
) (ended bool) {
	call.DeployItem = e.newProbe(e.firstType(), string(rule)).DeployItem
	result := e.probe(ctx, where, e.plugin.service.Reconcile, call, further...)
	if result.Err != nil {
		e.breaks(rule, "%s: expected a result, but the call %s", where, result)
	}
	return result.Err == nil
}

// say makes a call of Reconcile with any messages, and nothing after them.
func (e *examination) say(ctx context.Context, where string, opening ...*deployerv1.HostMessage) *Result {
	call := Call{DeployItem: &v1alpha1.DeployItem{}, opening: append([]*deployerv1.HostMessage{}, opening...)}
	return e.probe(ctx, where, e.plugin.service.Reconcile, call)
}

// idle opens a silent call, until the returned function ends it. It returns when the plugin has surely seen the call.
func (e *examination) idle(ctx context.Context) (end func(), err error) {
	open, cancel := context.WithCancel(ctx)
	if _, err = e.plugin.service.Reconcile(open); err == nil {
		_, err = e.plugin.getInfo(ctx)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open a call: %w", err)
	}
	return cancel, nil
}

func (e *examination) checkStartFirst(ctx context.Context) {
	for where, opening := range strange.Openings() {
		result := e.say(ctx, where, opening...)
		if result.Err == nil && result.Failed == nil || errors.Is(result.Err, exchange.ErrNoResult) ||
			errors.Is(result.Err, context.DeadlineExceeded) {
			e.breaks(RuleStartFirst, "%s: expected an error within %s, but the call %s", where, e.limits.Probe, result)
		}
	}
}

// checkTexts hands over documents that are not easily quoted. Any failure is right.
func (e *examination) checkTexts(ctx context.Context) {
	for where, document := range strange.Documents() {
		e.say(ctx, where+" in the deploy item", hostside.StartMessage(&deployerv1.Start{DeployItem: []byte(document)}))
		if !e.can().GetSeparateDocuments() {
			continue
		}
		item, _ := json.Marshal(e.newProbe(e.firstType(), string(RuleTexts)).DeployItem) // it is a plain struct
		e.say(ctx, where+" in the provider configuration", hostside.StartMessage(&deployerv1.Start{
			DeployItem: item, JobId: "job-1", ProviderConfiguration: []byte(document),
		}))
	}
}

func (e *examination) checkConfigRequired(ctx context.Context) {
	for _, t := range e.info().GetDeployItemTypes() {
		call := e.newProbe(v1alpha1.DeployItemType(t), "config-required")
		for _, c := range e.cases { // a target lets the plugin get further
			if string(c.Call.DeployItem.Spec.Type) == t {
				call.Target, call.Context = c.Call.Target, c.Call.Context
				call.DeployItem.Spec.Target = c.Call.DeployItem.Spec.Target
			}
		}
		where := fmt.Sprintf("type %.100q without a provider configuration", t)
		result := e.probe(ctx, where, e.plugin.service.Reconcile, call)
		e.refuses(where, "spec.config", result)
		e.callClaimed(ctx, where, call)
	}
}

// callClaimed makes all further calls that the plugin claims, for a probe. Any failure is right.
func (e *examination) callClaimed(ctx context.Context, where string, call Call) {
	service, can := e.plugin.service, e.can()
	for _, operation := range []struct {
		name    string
		claimed bool
		open    exchange.Opener
	}{
		{"Abort", can.GetAbort(), service.Abort},
		{"ForceReconcile", can.GetForceReconcile(), service.ForceReconcile},
		{"CheckHealth", can.GetCheckHealth(), service.CheckHealth},
	} {
		if operation.claimed {
			e.probe(ctx, operation.name+" of "+where, operation.open, call)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, e.limits.Probe)
	defer cancel()
	if can.GetRender() {
		_, err := e.plugin.Render(ctx, e.asHost(call))
		e.breaksOff(RuleRender, "Render of "+where, err)
	}
	if can.GetDiff() {
		_, err := e.plugin.Diff(ctx, e.asHost(call))
		e.breaksOff(RuleDiff, "Diff of "+where, err)
	}
}

// breaksOff checks that a question has an answer, such as a failure.
func (e *examination) breaksOff(rule Rule, where string, err error) {
	if failed := (*Failed)(nil); err != nil && !errors.As(err, &failed) {
		e.breaks(rule, "%s: expected an answer, but found: %v", where, err)
	}
}

// checkValidate checks that the types have a check of unknown fields.
func (e *examination) checkValidate(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.limits.Probe)
	defer cancel()
	for _, t := range e.info().GetDeployItemTypes() {
		document := []byte(`{"` + strange.Field + `":true}`)
		call := Call{DeployItem: DeployItem(v1alpha1.DeployItemType(t), document)}
		if problems, err := e.plugin.Validate(ctx, e.asHost(call)); err != nil || len(problems) == 0 {
			e.breaks(RuleValidate, "type %.100q: expected problems of a provider configuration with nothing but the field %s, "+
				"but found none (error %v)", t, strange.Field, err)
		}
	}
}

// refuses checks that a call has failed for a mistake in the item, with its name in the message.
func (e *examination) refuses(where, names string, result *Result) {
	if result.Failed == nil {
		e.breaks(RuleConfigStrict, "%s: expected a failure, but it %s", where, result)
		return
	}
	code, text := string(v1alpha1.ErrorConfigurationProblem), result.Failed.Error()
	if !strings.Contains(text, code) || !strings.Contains(text, names) {
		e.breaks(RuleConfigStrict, "%s: expected the code %s and a message that names %s, but it %s",
			where, code, names, result)
	}
}

func (e *examination) checkUnknownIgnored(ctx context.Context) {
	e.reconcile(ctx, RuleUnknownIgnored, "messages and fields of a later version, and answers without a question", Call{},
		strange.Unknown()...)
}

func (e *examination) checkStop(ctx context.Context) {
	stop := hostside.StopMessage("it is asked for")
	e.reconcile(ctx, RuleStop, "asked to stop twice", Call{}, stop, stop)
}

func (e *examination) checkLargeMessages(ctx context.Context) {
	// The call is refused, but not for its size.
	result := e.say(ctx, "a large message", strange.Large(e.limits.Large))
	if status.Code(result.Err) == codes.ResourceExhausted {
		e.breaks(RuleLargeMessages, "a message of %d bytes: %v", e.limits.Large, result.Err)
	}
}

func (e *examination) checkConcurrentCalls(ctx context.Context) {
	end, err := e.idle(ctx)
	if err != nil {
		e.breaks(RuleConcurrentCalls, "%v", err)
		return
	}
	defer end()
	const where = "while another call is open"
	for range 10 { // the first ones might slip through before the other call is seen
		if !e.reconcile(ctx, RuleConcurrentCalls, where, Call{}) {
			return
		}
	}
	if e.can().GetAbort() {
		if result := e.probe(ctx, where, e.plugin.service.Abort, e.newProbe(e.firstType(), "abort")); result.Err != nil {
			e.breaks(RuleConcurrentCalls, "Abort %s: it %s", where, result)
		}
	}
}

// checkCallEnds cancels more calls than a plugin might have threads, and checks whether the next one is answered.
func (e *examination) checkCallEnds(ctx context.Context) {
	for range 100 {
		end, err := e.idle(ctx)
		if err != nil {
			e.breaks(RuleCallEnds, "%v", err)
			return
		}
		end()
	}
	e.reconcile(ctx, RuleCallEnds, "after 100 calls were cancelled", Call{})
}

// checkCredentials checks whether calls with any credentials have a result. Each call looks for bait in the messages.
func (e *examination) checkCredentials(ctx context.Context) {
	namesOCMConfig := &v1alpha1.Context{}
	namesOCMConfig.OCMConfig = &v1alpha1.LocalObjectReference{Name: "conformance"}
	for where, call := range map[string]Call{
		"access to a host cluster":   {HostCluster: watchdog.BaitCluster()},
		"ocmConfig with credentials": {Context: namesOCMConfig, OCMConfig: watchdog.BaitOCMConfig()},
		"ocmConfig that cannot be used": {
			Context: namesOCMConfig, OCMConfig: &sdk.OCMConfig{ConfigMap: "conformance", Problem: "the rules are being checked"},
		},
		"credentials that cannot be used": {Credentials: strange.Unusable()},
		"no credentials":                  {Credentials: &sdk.Credentials{}},
	} {
		e.reconcile(ctx, RuleCredentials, where, call)
	}
}
