package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// strayReference is a sequence number that no provider status has.
	strayReference = 1 << 40
	// futureField is the number of a field that this version of the protocol does not have.
	futureField protowire.Number = 1 << 20
)

// addUnknownField adds a field to a message that its receiver cannot know.
func addUnknownField(m proto.Message) {
	field := protowire.AppendTag(nil, futureField, protowire.BytesType)
	m.ProtoReflect().SetUnknown(protowire.AppendString(field, "from a later version"))
}

func (e *examination) firstType() v1alpha1.DeployItemType {
	if types := e.info.GetDeployItemTypes(); len(types) > 0 {
		return v1alpha1.DeployItemType(types[0])
	}
	return ""
}

// newProbe returns a call for an item of its own that cannot be deployed, because it has no provider configuration. The name of
// the item tells in the plugin's log what is checked with it.
func (e *examination) newProbe(itemType v1alpha1.DeployItemType, purpose string) Call {
	e.probes++
	item := DeployItem(itemType, nil)
	item.Name = fmt.Sprintf("conformance-%s-%d", purpose, e.probes)
	item.UID = types.UID(fmt.Sprintf("00000000-0000-0000-0001-%012d", e.probes))
	return Call{DeployItem: item}
}

// call carries out one call and notes the rules that it breaks. where says which call it is.
func (e *examination) call(ctx context.Context, where string, open opener, call Call) *Result {
	call = e.asHost(call)
	result, found := converse(ctx, open, &call, e.limits.silence)
	e.pass(found.checked...)
	for _, broken := range found.broken {
		e.breaks(broken.Rule, "%s: %s", where, broken.Message)
	}
	return result
}

// probe reconciles an item that cannot be deployed.
func (e *examination) probe(ctx context.Context, where string, call Call) *Result {
	ctx, cancel := context.WithTimeout(ctx, e.limits.probe)
	defer cancel()
	return e.call(ctx, where, e.plugin.service.Reconcile, call)
}

// kind says how a call ended, for comparison.
func (r *Result) kind() string {
	switch {
	case r.Succeeded != nil:
		return "succeeded"
	case r.Failed != nil:
		return "failed"
	case r.InProgress != nil:
		return "in progress"
	default:
		return ""
	}
}

// expectUsual checks that a call of an item without a provider configuration ends as usual.
func (e *examination) expectUsual(rule Rule, where string, result *Result) {
	if result.kind() != e.usual {
		e.breaks(rule, "%s: expected the call to end as usual (%s), but it %s", where, e.usual, result)
	}
}

// say sends messages and receives until the call ends. The error says how it ended, and is nil if it had a result.
func say(ctx context.Context, open opener, messages ...*deployerv1.HostMessage) (*deployerv1.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := open(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if err := s.Send(m); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	if err := s.CloseSend(); err != nil {
		return nil, err
	}
	for {
		m, err := s.Recv()
		if err != nil {
			return nil, err
		}
		if m.GetResult() != nil {
			return m.GetResult(), nil
		}
	}
}

func (e *examination) sayBounded(ctx context.Context, messages ...*deployerv1.HostMessage) (*deployerv1.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, e.limits.probe)
	defer cancel()
	return say(ctx, e.plugin.service.Reconcile, messages...)
}

// idle opens a call in which nothing is said, until the returned function ends it. It returns when the plugin has surely seen it.
func (e *examination) idle(ctx context.Context) (end func(), err error) {
	open, cancel := context.WithCancel(ctx)
	if _, err := e.plugin.service.Reconcile(open); err != nil {
		cancel()
		return nil, fmt.Errorf("open a call: %w", err)
	}
	if _, err := e.plugin.getInfo(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("GetInfo while a call is open: %w", err)
	}
	return cancel, nil
}

func (e *examination) checkStartFirst(ctx context.Context) {
	e.pass(RuleStartFirst)
	for _, opening := range []struct {
		name     string
		messages []*deployerv1.HostMessage
	}{
		{"an acknowledgement as the first message", []*deployerv1.HostMessage{acknowledgement(1, "")}},
		{"a first message without content", []*deployerv1.HostMessage{{}}},
		{"no message at all", nil},
	} {
		result, err := e.sayBounded(ctx, opening.messages...)
		switch {
		case err == nil:
			e.breaks(RuleStartFirst, "%s: expected an error, but found the result {%s}", opening.name, quoted(result.String()))
		case errors.Is(err, io.EOF):
			e.breaks(RuleStartFirst, "%s: the call ended without an error", opening.name)
		case status.Code(err) == codes.DeadlineExceeded:
			e.breaks(RuleStartFirst, "%s: the call did not end within %s", opening.name, e.limits.probe)
		}
	}
}

func (e *examination) checkItemInvalid(ctx context.Context) {
	e.pass(RuleItemInvalid)
	for _, document := range []string{`{"`, `[]`, "\x00"} {
		result, err := e.sayBounded(ctx, startMessage(&deployerv1.Start{DeployItem: []byte(document), JobId: "job-1"}))
		switch {
		case err == nil && result.GetFailed() == nil:
			e.breaks(RuleItemInvalid, "the deploy item %q: expected an error or a failure, but found {%s}", document, quoted(result.String()))
		case errors.Is(err, io.EOF):
			e.breaks(RuleItemInvalid, "the deploy item %q: the call ended without an error", document)
		case status.Code(err) == codes.DeadlineExceeded:
			e.breaks(RuleItemInvalid, "the deploy item %q: the call did not end within %s", document, e.limits.probe)
		}
	}
}

// checkConfigRequired also learns how a call for an item without a provider configuration usually ends.
func (e *examination) checkConfigRequired(ctx context.Context) {
	e.pass(RuleConfigRequired)
	for i, t := range e.info.GetDeployItemTypes() {
		itemType := v1alpha1.DeployItemType(t)
		call := e.newProbe(itemType, "config-required")
		for _, c := range e.cases { // a target lets the plugin get further
			if c.Call.DeployItem.Spec.Type == itemType {
				call.Target, call.Context = c.Call.Target, c.Call.Context
				call.DeployItem.Spec.Target = c.Call.DeployItem.Spec.Target
				break
			}
		}
		where := fmt.Sprintf("type %s without a provider configuration", quoted(t))
		result := e.probe(ctx, where, call)
		e.refuses(RuleConfigRequired, where, "spec.config", result)
		if i == 0 {
			e.usual = result.kind()
		}
	}
}

// refuses checks that a call has failed for a mistake in the item, and that its message names what is wrong.
func (e *examination) refuses(rule Rule, where, names string, result *Result) {
	if result.Failed == nil {
		e.breaks(rule, "%s: expected a failure, but it %s", where, result)
		return
	}
	if code := v1alpha1.ErrorConfigurationProblem; !result.Failed.has(code) {
		e.breaks(rule, "%s: expected code %s, but it %s", where, code, result)
	}
	if !strings.Contains(result.Failed.Error(), names) {
		e.breaks(rule, "%s: expected a message that names %s, but it %s", where, names, result)
	}
}

func (e *examination) checkUnknownIgnored(ctx context.Context) {
	e.pass(RuleUnknownIgnored)
	call := e.newProbe(e.firstType(), "unknown-field")
	call.fromTheFuture = true
	e.expectUsual(RuleUnknownIgnored, "a start message with an unknown field", e.probe(ctx, "unknown field", call))

	call = e.newProbe(e.firstType(), "unknown-message")
	call.noise = []*deployerv1.HostMessage{unknownMessage()}
	e.expectUsual(RuleUnknownIgnored, "a message of an unknown kind", e.probe(ctx, "unknown message", call))
}

func unknownMessage() *deployerv1.HostMessage {
	m := &deployerv1.HostMessage{}
	addUnknownField(m)
	return m
}

func strayAcknowledgements() []*deployerv1.HostMessage {
	return []*deployerv1.HostMessage{
		acknowledgement(strayReference, ""),
		acknowledgement(0, "nobody waits for this"),
		resolvedTarget(&deployerv1.ResolvedTarget{Sequence: strayReference, Error: &deployerv1.Error{Message: "nobody waits for this"}}),
		resolvedCredentials(&deployerv1.ResolvedRegistryCredentials{Sequence: strayReference, Error: &deployerv1.Error{Message: "nobody waits for this"}}),
	}
}

func (e *examination) checkStrayAcknowledgement(ctx context.Context) {
	e.pass(RuleStrayAcknowledgement)
	call := e.newProbe(e.firstType(), "stray-acknowledgement")
	call.noise = strayAcknowledgements()
	e.expectUsual(RuleStrayAcknowledgement, "answers to what was not asked", e.probe(ctx, "stray acknowledgement", call))
}

func (e *examination) checkStop(ctx context.Context) {
	e.pass(RuleStop)
	call := e.newProbe(e.firstType(), "stop")
	call.noise = []*deployerv1.HostMessage{stopMessage(), stopMessage()}
	if result := e.probe(ctx, "asked to stop", call); result.Err != nil {
		e.breaks(RuleStop, "the call was asked to stop twice and %s", result)
	}
}

func (e *examination) checkLargeMessages(ctx context.Context) {
	e.pass(RuleLargeMessages)
	call := e.newProbe(e.firstType(), "large-item")
	call.DeployItem.Annotations = map[string]string{"example.org/large": strings.Repeat("x", e.limits.largeItem)}
	e.expectUsual(RuleLargeMessages, "a deploy item of 5 MiB", e.probe(ctx, "large item", call))

	// The call is refused, but not for its size.
	large := acknowledgement(1, string(bytes.Repeat([]byte("x"), e.limits.largeMessage)))
	if _, err := e.sayBounded(ctx, large); status.Code(err) == codes.ResourceExhausted {
		e.breaks(RuleLargeMessages, "a message of 60 MiB: %v", err)
	}
}

func (e *examination) checkConcurrentCalls(ctx context.Context) {
	e.pass(RuleConcurrentCalls)
	end, err := e.idle(ctx)
	if err != nil {
		e.breaks(RuleConcurrentCalls, "%v", err)
		return
	}
	defer end()
	for range 3 { // the first one might slip through before the other call is seen
		result := e.probe(ctx, "beside another call", e.newProbe(e.firstType(), "concurrent-call"))
		if result.kind() != e.usual {
			e.expectUsual(RuleConcurrentCalls, "while another call is open", result)
			return
		}
	}
}

func (e *examination) checkAbortBeside(ctx context.Context) {
	e.pass(RuleAbortBeside)
	end, err := e.idle(ctx)
	if err != nil {
		e.breaks(RuleConcurrentCalls, "%v", err)
		return
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, e.limits.probe)
	defer cancel()
	const where = "Abort beside another call"
	if result := e.call(ctx, where, e.plugin.service.Abort, e.newProbe(e.firstType(), "abort")); result.Err != nil {
		e.breaks(RuleAbortBeside, "%s: it %s", where, result)
	}
}

// checkCallEnds cancels calls that have not begun, more than a plugin might have threads for, and sees whether the next one is
// answered.
func (e *examination) checkCallEnds(ctx context.Context) {
	const cancelled = 100
	e.pass(RuleCallEnds)
	for range cancelled {
		end, err := e.idle(ctx)
		if err != nil {
			e.breaks(RuleCallEnds, "%v", err)
			return
		}
		end()
	}
	e.expectUsual(RuleCallEnds, "after 100 calls were cancelled", e.probe(ctx, "after cancelled calls", e.newProbe(e.firstType(), "after-cancelled-calls")))
}
