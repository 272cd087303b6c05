package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

const (
	// straySequence is a sequence number without a question.
	straySequence = 1 << 40
	// futureField is the number of an unknown field.
	futureField protowire.Number = 1 << 20
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
	ctx, cancel := context.WithTimeout(ctx, e.limits.probe)
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
	item := func(document string) *deployerv1.HostMessage {
		return hostside.StartMessage(&deployerv1.Start{DeployItem: []byte(document), JobId: "job-1"})
	}
	for where, opening := range map[string][]*deployerv1.HostMessage{
		"an acknowledgement as the first message": {hostside.Acknowledgement(1, nil)},
		"a first message without content":         {{}},
		"no message at all":                       nil,
		"half a deploy item":                      {item(`{"`)},
		"a list as deploy item":                   {item(`[]`)},
	} {
		result := e.say(ctx, where, opening...)
		if result.Err == nil && result.Failed == nil || errors.Is(result.Err, exchange.ErrNoResult) ||
			errors.Is(result.Err, context.DeadlineExceeded) {
			e.breaks(RuleStartFirst, "%s: expected an error within %s, but the call %s", where, e.limits.probe, result)
		}
	}
}

// checkTexts hands over documents that are not easily quoted. Any failure is right.
func (e *examination) checkTexts(ctx context.Context) {
	for where, document := range map[string]string{
		"a byte that is not UTF-8": "{\"Gr\xfcn",
		// Wherever such texts are cut, one of them is cut within a character.
		"a long text":       `{"` + strings.Repeat("\u20ac", 8<<10),
		"another long text": `{"a` + strings.Repeat("\u20ac", 8<<10),
		"a third long text": `{"ab` + strings.Repeat("\u20ac", 8<<10),
	} {
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
	unknownKind, unknownField := &deployerv1.HostMessage{}, hostside.Acknowledgement(straySequence, nil)
	for _, m := range []proto.Message{unknownKind, unknownField} {
		field := protowire.AppendTag(nil, futureField, protowire.BytesType)
		m.ProtoReflect().SetUnknown(protowire.AppendString(field, "from a later version"))
	}
	unasked := &hostside.Error{Message: "this was not asked for"}
	e.reconcile(ctx, RuleUnknownIgnored, "messages and fields of a later version, and answers without a question", Call{},
		unknownKind, unknownField,
		hostside.TargetAnswer(straySequence, nil, unasked), hostside.CredentialsAnswer(straySequence, nil, unasked),
	)
}

func (e *examination) checkStop(ctx context.Context) {
	stop := hostside.StopMessage("it is asked for")
	e.reconcile(ctx, RuleStop, "asked to stop twice", Call{}, stop, stop)
}

func (e *examination) checkLargeMessages(ctx context.Context) {
	// The call is refused, but not for its size.
	large := &deployerv1.HostMessage{Content: &deployerv1.HostMessage_Acknowledgement{
		Acknowledgement: &deployerv1.Acknowledgement{Sequence: 1, Error: strings.Repeat("x", e.limits.large)},
	}}
	result := e.say(ctx, "a large message", large)
	if status.Code(result.Err) == codes.ResourceExhausted {
		e.breaks(RuleLargeMessages, "a message of %d bytes: %v", e.limits.large, result.Err)
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
	for range 3 { // the first one might slip through before the other call is seen
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
	const problem = "the rules are being checked"
	namesOCMConfig := &v1alpha1.Context{}
	namesOCMConfig.OCMConfig = &v1alpha1.LocalObjectReference{Name: "conformance"}
	for where, call := range map[string]Call{
		"access to a host cluster":   {HostCluster: exchange.BaitCluster()},
		"ocmConfig with credentials": {Context: namesOCMConfig, OCMConfig: exchange.BaitOCMConfig()},
		"ocmConfig that cannot be used": {
			Context: namesOCMConfig, OCMConfig: &sdk.OCMConfig{ConfigMap: "conformance", Problem: problem},
		},
		"credentials that cannot be used": {Credentials: &sdk.Credentials{
			Registries:        []sdk.RegistryCredentials{{Secret: "conformance", Problem: problem}, {Problem: problem}},
			ChartRepositories: []sdk.ChartRepositoryCredentials{{Problem: problem}},
		}},
		"no credentials": {Credentials: &sdk.Credentials{}},
	} {
		e.reconcile(ctx, RuleCredentials, where, call)
	}
}
